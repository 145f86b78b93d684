"""Measurements: ours beside Kubernetes itself, in the same run on the same machine.

Here belong: one module per question, each with `run(quick)` that returns rows. Never: an assertion about time.
"""
