"""Where a pod should go, given what is reserved for it.

Here belong: zone scoring, plugins, the extender, the standalone scheduler and the simulator.
Never: a choice of volume; that is binder's.
"""
