"""What is known of a volume's health: verdicts, how they follow from a driver's responses, and how sources combine.

Open `verdict` first. Never a call to a driver.
"""
