"""Why a pod has no node, or does not run on it: its scheduler, the nodes, its volumes on them, attaching, mounting.

Open `scheduling` first. Never a rule of a filter: `node_verdicts` uses those of the scheduler.
"""
