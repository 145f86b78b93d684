"""Decides for many pods at once: which claims are ours, what they get, and why not.

Open `plan` first. Never I/O: a view and a time in, decisions out.
"""
