"""Carries decisions out: ordered conditional writes, the last look before them, and their rollback.

Open `actor` first. Never an unconditional write, and never one without the Lease.
"""
