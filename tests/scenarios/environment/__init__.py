"""What stories see and change of the cluster: its objects as plain JSON, drivers, a provisioner, a world per story.

Open `world` first, then `documents` for the objects it creates and `waiting` for how to await a state. Never a story.
"""
