"""Whether pods to which volumes are committed have a place on a node, by brute force.

Open `commitments` first. Never: which volume fits a claim.
"""
