"""What a soak plays on: a control plane, replicas of ours with networks of their own, and the hands of users.

Open `stage` first, which puts them up. `skewed_replica` is the one module of a soak that imports the product.
Never: what happens when, and what is right.
"""
