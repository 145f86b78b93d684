"""What one user of a namespace can create to block others, and for how long it does.

Open `inputs` first. Never needs more rights than such a user has.
"""
