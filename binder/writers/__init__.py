"""Executes decisions: ordered conditional writes, the last checks before them, and their rollback.

Open `actor` first. Never an unconditional write, and never one without the Lease.
"""
