"""A scheduling cycle: a pod, a view and a profile in; a placement, or the reasons against every node, out.

Open `cycle` first. Never binds anything.
"""
