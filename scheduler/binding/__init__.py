"""Executes a placement: volumes first, then the Binding; what was begun is finished or rolled back.

Open `binding_cycle` first. Never chooses a node.
"""
