"""What a volume's health means for claims: published and reported health, quarantine, and whether a volume may be used.

Open `volume_policy` first. Never a call to a driver.
"""
