"""What ends a release early."""


class ReleaseError(Exception):
    """A text for people: what, where, and what was expected."""
