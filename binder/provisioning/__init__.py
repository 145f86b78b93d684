"""Volumes that do not exist yet: which storage their claims share, and how much of it is left.

Open `pool` first. Never asks a driver and never writes: everything follows from objects, and from what was seen of
them.
"""
