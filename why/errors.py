"""What ends a question without an answer."""


class WhyError(Exception):
    """The question cannot be answered. Its text states the problem, its place, and the next step."""
