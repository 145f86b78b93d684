"""Which room on which node is taken by pods that have no node yet.

Open `bookings` first. Never remembers: everything follows from the view of a pass.
"""
