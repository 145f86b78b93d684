"""The loops: pods that wait, reservations that end, and volumes whose health changes.

Open `reconciler` first. Never a rule; those are in the rooms that they call.
"""
