"""A real Chromium, driven by Playwright. Where there is none, these tests are skipped with the reason."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from shutil import which

import pytest
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SIZE: ViewportSize = {"width": 1440, "height": 900}


def installed() -> str | None:
    """Return the browser that is installed."""
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := which(name))), None)


def chromium() -> str:
    """Return the browser that is installed. Skips the test where there is none: Playwright's own are not fetched."""
    program = installed()
    if program is None:
        pytest.skip("no Chromium: install one (apt-get install chromium), or name it in $CHROMIUM")
    return program


WAIT = 60_000
"""Milliseconds for whatever is waited for: a machine may be busy."""


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Start the browser."""
    expect.set_options(timeout=WAIT)
    program = chromium()  # first: without one, what drives it may not start either
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=WAIT
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(browser: Browser, url: str, *, dark: bool = False, expected: str = "") -> AsyncIterator[Page]:
    """Open the page. Whatever the browser complains of, and each request to another host, fails the test.

    A complaint with the text `expected` does not count.
    """
    complaints: list[str] = []
    context = await browser.new_context(
        viewport=SIZE, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    page = await context.new_page()
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    origin = url.partition("#")[0].partition("?")[0]
    page.on("request", lambda sent: None if sent.url.startswith(origin) else complaints.append(sent.url))
    await page.goto(url)
    yield page
    await context.close()
    unexpected = [complaint for complaint in complaints if not expected or expected not in complaint]
    assert not unexpected, unexpected
