"""From the objects that a user names, or all that is pending, to the report. Effects: it reads until it has enough.

Open `answering` first. Never a cause: those are in `causes/`.
"""
