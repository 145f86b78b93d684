"""Nodes that do not exist yet."""
