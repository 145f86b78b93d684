"""Holds for replicas to come."""
