"""Holds, replacements, and volumes that are still to be made."""
