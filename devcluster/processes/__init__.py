"""Processes that end with their owner, however it ends, and the directory and the ports that they hold.

Open `component` first. Never depends on what a process is for.
"""
