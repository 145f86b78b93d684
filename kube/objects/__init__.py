"""Objects of the API as slim frozen records: what they hold, and how their kinds are addressed.

Open `model` first. Never a rule about them, and never how they are decoded.
"""
