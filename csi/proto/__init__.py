"""The CSI protocol as vendored protobuf definitions, and the stubs that regenerate.py makes of them.

Here belong: csi_v1.proto with its licence, and what is generated from it. Never: a line written by hand in a stub.
"""
