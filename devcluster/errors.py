"""Errors of a cluster, for the person who started it."""


class ClusterError(Exception):
    """The cluster cannot be built, started or used as requested; the message has the reason and the next step."""


class ComponentFailedError(ClusterError):
    """A component ended or did not become ready; the message ends with the last lines of its log."""


class AddressInUseError(ComponentFailedError):
    """A component found its port in use: starting again with other ports helps."""
