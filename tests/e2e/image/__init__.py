"""The image that `make e2e` has built, read as an archive: no cluster is needed."""
