"""What a component needs of a cluster, and what is missing.

Open `requirements` first. Never changes anything.
"""
