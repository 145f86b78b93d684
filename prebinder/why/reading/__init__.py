"""Facts from an API server, with the user's own permissions, or from a file. Effects.

Open `live` first. Never a check.
"""
