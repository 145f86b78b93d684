"""Reports to people and metrics what happened to claims and volumes.

Open `announce` first. Never decides anything.
"""
