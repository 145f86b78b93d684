"""Doubles of the outside world that keep its rules."""
