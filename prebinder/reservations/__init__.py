"""The work of `reservations list`: what is held for which claim, as a table that may follow it.

Open `rows` first. Never a decision about a reservation: those are in binder.
"""
