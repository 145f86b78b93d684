"""The command `why`, and what its flags make of it: `why --match`, `why --serve` and `why dump`.

Open `why` for the command, `request` for the objects it is about. Never a rule about why something is pending.
"""
