"""What users can set: settings with defaults and bounds, and the files they are read from.

Open `settings` first. Never what a setting does.
"""
