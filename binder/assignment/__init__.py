"""Distinct volumes that may be used for all claims of a pod on one topology, and a node there with room beside others.

Open `placing` first. Never a write, and never only some of a pod's claims.
"""
