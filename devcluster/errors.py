"""What goes wrong with a cluster, in words for the person who started it."""


class ClusterError(Exception):
    """The cluster cannot be built, started or used as asked; the message says why and what to do."""


class ComponentFailedError(ClusterError):
    """A component ended or did not become ready; the message ends with the last lines of its log."""


class AddressInUseError(ComponentFailedError):
    """A component found its port taken: starting again with other ports helps."""
