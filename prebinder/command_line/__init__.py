"""What all commands share: the format of help and errors, types of values, and flags that set a field of the settings.

Open `command` first. Never what a command does.
"""
