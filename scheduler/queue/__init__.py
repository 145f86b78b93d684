"""The pods that wait for a node: who is tried next, who backs off, and which event brings a pod back.

Open `scheduling_queue` first. Never decides where a pod goes.
"""
