"""What a plugin is, which plugins a profile has, how a profile is configured, and the events that plugins react to.

Open `plugin` first. Never a plugin.
"""
