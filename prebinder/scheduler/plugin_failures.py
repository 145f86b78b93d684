"""Failures of plugins from other distributions: each counted, logged once."""

import logging
from collections.abc import Callable

from scheduler.framework.containment import PluginFailed

logger = logging.getLogger(__name__)


class PluginFailures:
    """Notified of each failure. `counted` are called with the plugin and the extension point.

    In the log a failure appears once for each plugin, extension point and type of error.
    """

    def __init__(self) -> None:
        self.counted: list[Callable[[str, str], None]] = []
        self._logged: set[tuple[str, str, type[BaseException]]] = set()

    def plugin_failed(self, failure: PluginFailed) -> None:
        for count in self.counted:
            count(failure.plugin, failure.point)
        kind = failure.plugin, failure.point, type(failure.error)
        if kind not in self._logged:
            self._logged.add(kind)
            fields = {"plugin": failure.plugin, "error": str(failure)}
            logger.error("Plugin failed", extra=fields, exc_info=failure.error)
