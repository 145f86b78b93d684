"""The answer as frozen values: what `-o json` prints, and what every rendering is made of. Pure.

Open `report` first. Never a rule.
"""
