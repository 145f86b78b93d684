"""The standalone scheduler's process: its watches, its profiles, and what it does as leader.

Open `process` first. Never a scheduling rule.
"""
