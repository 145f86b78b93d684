"""How a driver is called: its endpoint, a bounded channel, the session, and the read-only methods.

Open `session` first. Never a method that changes anything.
"""
