"""The control port as a part of the scheduler's process: from its settings to a running server."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from kube.background import in_background
from kube.clock import Clock
from prebinder.control.config_endpoint import ConfigEndpoint
from prebinder.control.pod_binding_rpc import PodBinding, pod_binding_methods
from prebinder.control.profile_endpoint import ProfileEndpoint
from prebinder.control.server import ControlServer, rpc_route
from prebinder.control.token import ControlToken
from prebinder.errors import CommandError
from scheduler.standalone.config_watch import ConfigurationInForce


@asynccontextmanager
async def serving_control(
    address: tuple[str, int] | None,
    token_file: Path,
    binding: Callable[[], PodBinding | None],
    configurations: ConfigurationInForce,
    clock: Clock,
) -> AsyncIterator[int]:
    """Serve while inside the context and yield the port; 0, and nothing is served, without an address.

    Raises ValueError for an address that other machines can reach, CommandError if it or the token is not available.
    """
    if address is None:
        yield 0
        return
    routes = (
        rpc_route(pod_binding_methods(binding)),
        *ConfigEndpoint(configurations).routes(),
        ProfileEndpoint(clock).route(),
    )
    token = ControlToken(token_file)
    server = ControlServer(address, lambda: token.current, routes)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise CommandError(
                f"cannot serve the control port: {error.strerror or error}; choose another address with "
                "--control-bind-address (0 serves none)"
            ) from error
        await stack.enter_async_context(in_background(token.follow(clock)))
        yield server.port
