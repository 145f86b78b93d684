"""Builds the control plane's binaries once for each set of pinned versions; `python -m devcluster.build` does it ahead
of time.

Open `binaries` first. Never starts what it builds.
"""
