"""Nodes that are added for pods whose volumes are in zones without room.

Never nodes of other stories: each adds its own and deletes them."""
