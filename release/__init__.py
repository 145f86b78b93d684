"""Makes everything of a release from one commit: `make release`. Nothing is published; docs/releasing.md says how to.

Here is what is made of the product and how it is described: archives, bill of materials, provenance, signatures. How
the image is built is in `devcluster.build.image`.
"""
