"""The HTTP servers of all processes: what they listen on, what clients may take of them, certificates, probes.

Open `listening` first. Never what is served, except probes and metrics.
"""
