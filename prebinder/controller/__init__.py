"""The controller's process: every part is built, given its dependencies, and started and stopped in order.

Open `process` first. Never a decision.
"""
