"""Reports to people, metrics and traces what happened to claims and volumes.

Open `announce` first. Never decides anything.
"""
