"""The standalone scheduler's process: its watches, its profiles, and what it does while it holds the Lease.

Open `process` first. Never a scheduling rule.
"""
