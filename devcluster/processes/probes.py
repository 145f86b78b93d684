"""Whether a process answers: probes for `component`."""

import asyncio
import ssl

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=2)


async def answers_ok(url: str, trust: ssl.SSLContext | bool = True) -> bool:
    """Whether a GET of this URL returns 200; anything else, a missing response included, is False."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(url, ssl=trust) as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def accepts(socket_path: str) -> bool:
    """Whether a process accepts connections on this unix socket."""
    try:
        _, writer = await asyncio.open_unix_connection(socket_path)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
