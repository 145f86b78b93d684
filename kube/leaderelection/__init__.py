"""One writer of several replicas: a Lease, who may hold it, and the proof asked for before each write.

Open `lease` first: the rules as a function. Never what the leader does.
"""
