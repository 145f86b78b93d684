"""Nodes that an autoscaler would add: what they would be like, and how many pods may get volumes ahead of them.

Open `joining` first. Never what is written, nor how a volume is chosen: that is planned as for any node.
"""
