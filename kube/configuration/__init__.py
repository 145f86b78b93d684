"""Configuration files: strict YAML, decoded by one dataclass each, with errors that name key and line.

Open `document` first. Never a setting of one component.
"""
