"""The standalone scheduler: its loop, its view of the cluster, evictions, and its reports about attempts.

Open `scheduler` first. Never a rule about nodes; those are plugins.
"""
