"""`/config`: GET returns the configuration in force, PUT replaces it until its file changes or the process ends."""

import logging
from http import HTTPStatus
from typing import Final

from aiohttp import web

from kube.configuration.document import ConfigurationError
from prebinder.control.request import read_body
from prebinder.control.server import Route
from prebinder.serving.guard import RequestRejected
from scheduler.framework.config import render
from scheduler.standalone.config_watch import ConfigurationInForce

MAX_CONFIGURATION_BYTES: Final = 1024 * 1024
"""Bytes, as much as a ConfigMap can hold."""
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml")

logger = logging.getLogger(__name__)


class ConfigEndpoint:
    """Returns and replaces a configuration."""

    def __init__(self, configurations: ConfigurationInForce) -> None:
        self._configurations = configurations

    def routes(self) -> tuple[Route, Route]:
        return Route("GET", "/config", self._get), Route("PUT", "/config", self._put)

    async def _get(self, _: web.Request) -> web.Response:
        return web.Response(text=render(self._configurations.current), content_type=_YAML[0])

    async def _put(self, request: web.Request) -> web.Response:
        content = await read_body(request, MAX_CONFIGURATION_BYTES, _YAML)
        try:
            await self._configurations.apply(content)
        except ConfigurationError as error:
            logger.warning("Rejected a configuration sent to the control port", extra={"error": str(error)})
            raise RequestRejected(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        logger.info("Applied a configuration sent to the control port")
        return web.Response(text="applied\n")
