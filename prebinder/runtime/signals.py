"""Ctrl-C and SIGTERM: the first requests a clean exit, the second ends the process at once."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def stop_requested() -> Iterator[asyncio.Event]:
    """Yield an event that the first signal sets. The second one ends the process without cleaning up."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            logger.warning("Exiting at once", extra={"signal": number.name})
            os._exit(128 + number)
        logger.info("Stopping", extra={"signal": number.name})
        stop.set()

    caught = (signal.SIGTERM, signal.SIGINT)
    for number in caught:
        loop.add_signal_handler(number, received, number)
    try:
        yield stop
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
