"""How soon a change of a volume's health is detected, and what it costs to probe many volumes.

Open `delay` first. Never waits for a pod.
"""
