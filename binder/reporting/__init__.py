"""Tells people and metrics what became of claims and volumes.

Open `announce` first. Never decides anything.
"""
