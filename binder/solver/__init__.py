"""Solves integer programs in a process of its own, so that native code can neither end nor delay the controller.

Open `solver_process` first. Never knows pods or volumes.
"""
