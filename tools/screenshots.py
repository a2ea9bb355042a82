# ruff: noqa: INP001  # a script of its own, not a package
"""Takes screenshots of the console with a broker of its own (`script/screenshots`)."""

import argparse
import json
import random
import threading
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from playwright.sync_api import Browser, Page

from headrace.testing import Broker
from support.console.browser import chromium, fill
from support.console.served_console import ServedConsole, served

IMAGES = Path(__file__).parents[1] / "docs" / "images"
HISTORY_S = 45
DOCUMENTED = {
    "console-overview": "/",
    "console-topics": "/topics",
    "console-messages": "/topics/orders/messages?where=%40.total+%3E+400&from=oldest",
}
EVERY = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "settings": "/topics/orders?tab=settings&q=retention",
    "consumers": "/topics/orders?tab=consumers",
    "messages": "/topics/orders/messages?limit=25",
    "hostile": "/topics/hostile/messages?partition=0",
    "hostile-record": "/topics/hostile/messages/0/0",
    "large-record": "/topics/hostile/messages/0/3",
    "record": "/topics/orders/messages/0/0",
    "produce": "/topics/orders/produce",
    "not-found": "/topics/nowhere",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR")
    folder: Path | None = parser.parse_args(arguments).all
    with Broker() as broker:
        fill(broker.bootstrap_servers)
        with (
            served(broker.bootstrap_servers, refresh_s=1.0, cluster_name="Shop") as console,
            chromium() as browser,
        ):
            _write_for_a_while(broker.bootstrap_servers)
            if folder is None:
                _take(browser, console, IMAGES, DOCUMENTED, 1280, "light")
                return
            for scheme in ("light", "dark"):
                for width in (360, 1600):
                    _take(browser, console, folder / f"{scheme}-{width}", EVERY, width, scheme)


def _write_for_a_while(servers: str) -> None:
    """Traffic, so that the charts show something."""
    producer = Producer({"bootstrap.servers": servers})
    numbers = random.Random(7)  # noqa: S311
    pause = threading.Event()
    for _ in range(HISTORY_S * 4):
        for number in range(numbers.randint(20, 120)):
            order = {"id": number, "total": round(numbers.random() * 500, 2), "country": "DE"}
            producer.produce(numbers.choice(["orders", "payments"]), json.dumps(order))
        producer.flush()
        pause.wait(0.25)


def _take(
    browser: Browser,
    console: ServedConsole,
    folder: Path,
    pages: dict[str, str],
    width: int,
    scheme: str,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page = browser.new_page(
        base_url=console.server.address,
        viewport={"width": width, "height": 860},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    for name, path in pages.items():
        page.goto(path)
        _wait_until_shown(page)
        page.screenshot(path=folder / f"{name}.png", full_page=width < 1000)
    page.close()


def _wait_until_shown(page: Page) -> None:
    if page.locator("[data-search]").count():
        page.locator("[data-search-stop]").wait_for(state="hidden")


if __name__ == "__main__":
    main()
