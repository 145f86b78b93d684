"""Volumes for replicas to come, and volumes that replace others, on a node that mounts them."""
