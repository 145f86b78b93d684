"""Configuration files: strict YAML, decoded by one dataclass each, with complaints that name key and line.

Open `document` first. Never a setting of one component.
"""
