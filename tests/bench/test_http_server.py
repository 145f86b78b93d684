import asyncio

import aiohttp
from aiohttp import web

from bench.http_server import served


async def test_a_request_whose_client_is_gone_ends() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def forever(_: web.Request) -> web.StreamResponse:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    application = web.Application()
    application.router.add_get("/", forever)
    async with served(application) as url:
        async with aiohttp.ClientSession() as session:
            request = asyncio.create_task(session.get(url))
            await began.wait()
            request.cancel()
            await asyncio.wait([request])
        async with asyncio.timeout(30):
            await ended.wait()
