"""What a plugin is, which make up a profile, how a profile is configured, and the events plugins react to.

Open `plugin` first. Never a plugin.
"""
