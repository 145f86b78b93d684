"""The stage of a soak: a control plane, replicas of ours with networks of their own, and clients of users.

Open `stage` first, which starts them. `skewed_replica` is the one module of a soak that imports the product. Never:
what happens when, and what is right.
"""
