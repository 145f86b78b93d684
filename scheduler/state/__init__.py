"""The cluster as a scheduling cycle sees it: nodes with their pods and what is left on them.

Open `cluster` first. Never I/O, and never a preference among nodes.
"""
