"""Fakes of external systems that follow the same rules."""
