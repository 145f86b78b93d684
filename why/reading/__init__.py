"""Facts from an API server, with the user's own permissions, or from dumps. Effects.

Open `live` first, `dump` for files. Never a check.
"""
