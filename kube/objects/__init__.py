"""Objects of the API as slim frozen records: what they hold, and the paths of their kinds.

Open `model` first. Never a rule about them, and never how they are decoded.
"""
