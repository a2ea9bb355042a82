"""One broker, one console and one browser for all tests of the console's pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from headrace.testing import Broker
from support.console.browser import chromium
from support.console.scene import BROKER_SETTINGS, fill
from support.console.served_console import ServedConsole, served


@pytest.fixture(scope="session")
def console() -> Iterator[ServedConsole]:
    """A console of a broker with records, dead letters, groups and an authorizer."""
    with Broker(settings=BROKER_SETTINGS) as broker:
        fill(broker.bootstrap_servers)
        with served(broker.bootstrap_servers, refresh_s=0.3) as console:
            yield console


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser, console: ServedConsole) -> Iterator[BrowserContext]:
    """A browser profile of its own."""
    context = browser.new_context(
        base_url=console.server.address, viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab; the test fails if its script fails or the CSP blocks something."""
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: (
            problems.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    yield page
    assert problems == []
