"""Which volume Kubernetes itself would pick for each claim of a dump, and on which nodes pods find their volumes.

Open `answers` first. Never a rule about volumes: those are in binder and scheduler.
"""
