"""The pods that wait for a node: which is scheduled next, which back off, and which event brings a pod back.

Open `scheduling_queue` first. Never decides where a pod goes.
"""
