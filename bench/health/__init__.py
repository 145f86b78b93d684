"""How soon a change of a volume's health is known, and what it costs to ask for the health of many.

Open `delay` first. Never waits for a pod.
"""
