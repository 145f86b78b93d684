"""Chooses the node for which all volumes of a pod are made together.

Pure. Open `selection` first. Never decides about volumes that exist, and never writes.
"""
