"""The work of `health`: what the drivers report about volumes, as a table that may follow them.

Open `watch` first. Never a verdict: those are in csi and binder.
"""
