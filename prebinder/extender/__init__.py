"""The extender's process: its HTTP server, and the extender as part of the controller.

Open `process` first. Never writes to the cluster.
"""
