"""The cached state of the cluster: a collection per kind, their indexes, and immutable snapshots of them all.

Open `store` first. Never I/O.
"""
