"""Nodes that an autoscaler would add: what they would be like, how many pods may get volumes ahead of them, and which
pods are let go for those that bring storage.

Open `joining` first. Never what is written, nor how a volume is chosen: that is planned as for any node.
"""
