"""Leader election: a Lease, who may hold it, and the check before each write.

Open `lease` first: the rules as a function. Never what the leader does.
"""
