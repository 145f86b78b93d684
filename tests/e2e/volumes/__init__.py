"""Volumes that pods really write to: made before, and made for them."""
