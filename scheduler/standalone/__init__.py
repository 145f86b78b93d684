"""The standalone scheduler: its loop, its view of the cluster, evictions, and what it tells about each attempt.

Open `scheduler` first. Never a rule about nodes; those are plugins.
"""
