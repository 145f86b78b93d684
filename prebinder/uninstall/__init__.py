"""`pvc-prebinder uninstall`: removes everything that pvc-prebinder wrote to the objects of a cluster.

Open `traces` first: what of an object is ours, as pure rules. Never a write while a controller holds the Lease, never a
deleted object, and never a claimRef of another writer.
"""
