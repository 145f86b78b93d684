"""The controller's process: every part built, handed what it needs, started and stopped in order.

Open `process` first. Never a decision.
"""
