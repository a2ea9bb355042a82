# ruff: noqa: INP001  # a script of its own, not a package
"""Takes screenshots of the console with brokers of its own (`script/screenshots`)."""

import argparse
import json
import random
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page

from headrace.testing import Broker
from support.console.browser import chromium
from support.console.scene import BROKER_SETTINGS, DEADLINE_S, PAGES, fill, write_checkpoint
from support.console.served_console import ServedConsole, served

IMAGES = Path(__file__).parents[1] / "docs" / "images"
HISTORY_S = 45
SHORT_HISTORY_S = 12
TOPICS = 1_000
PARTITIONS = 10
BATCH = 100
DOCUMENTED = {
    "console-overview": "/",
    "console-topics": "/topics",
    "console-messages": "/topics/orders/messages?where=%40.total+%3E+400&from=oldest",
    "console-group": "/groups/billing",
    "console-dead-letters": "/dead-letters/orders.dlq",
}
MORE = {
    "hostile": "/topics/hostile/messages?partition=0",
    "hostile-record": "/topics/hostile/messages/0/0",
    "large-record": "/topics/hostile/messages/0/3",
    "not-found": "/topics/nowhere",
}
DEAD = {
    "overview": "/",
    "topics": "/topics",
    "messages": "/topics/orders/messages",
    "group": "/groups/billing",
    "dead-letter-topic": "/dead-letters/orders.dlq",
    "users": "/users",
}
MANY = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/team-7.events.0007",
    "brokers": "/brokers",
}
DIALOGS = {
    "create-topic": ("/topics", "Create topic"),
    "delete-topic": ("/topics/orders", "Delete topic"),
    "reset-offsets": ("/groups/billing", "Reset offsets"),
    "create-acl": ("/acls", "Create ACL"),
    "set-quota": ("/quotas", "Set a quota"),
}
LOGIN = {"bootstrap.servers": "broker-1.example:9093", "security.protocol": "SASL_SSL"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR")
    folder: Path | None = parser.parse_args(arguments).all
    with chromium() as browser, tempfile.TemporaryDirectory() as checkpoints:
        write_checkpoint(Path(checkpoints))
        with Broker(settings=BROKER_SETTINGS) as broker:
            fill(broker.bootstrap_servers)
            with served(
                broker.bootstrap_servers,
                refresh_s=1.0,
                cluster_name="Shop",
                pipelines=(checkpoints,),
                request_timeout_s=2.0,
            ) as console:
                if folder is None:
                    _write_for_a_while(broker.bootstrap_servers, HISTORY_S)
                    _take(browser, console, IMAGES, DOCUMENTED, 1280, "light")
                    return
                _write_for_a_while(broker.bootstrap_servers, SHORT_HISTORY_S)
                _take_all(browser, console, folder, {**PAGES, **MORE})
                _take_dialogs(browser, console, folder / "dialogs")
                broker.kill()
                _take_all(browser, console, folder / "dead", DEAD)
        with served(LOGIN) as console:
            _take_all(browser, console, folder / "login", {"login": "/login"})
        with Broker() as broker:
            _create_many(broker.bootstrap_servers)
            with served(broker.bootstrap_servers) as console:
                _take_all(browser, console, folder / "many", MANY)


def _write_for_a_while(servers: str, seconds: int) -> None:
    """Traffic, so that the charts show something."""
    producer = Producer({"bootstrap.servers": servers})
    numbers = random.Random(7)  # noqa: S311
    pause = threading.Event()
    for _ in range(seconds * 4):
        for number in range(numbers.randint(20, 120)):
            order = {"id": number, "total": round(numbers.random() * 500, 2), "country": "DE"}
            producer.produce(numbers.choice(["orders", "payments"]), json.dumps(order))
        producer.flush()
        pause.wait(0.25)


def _create_many(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    names = [f"team-{number % 40}.events.{number:04}" for number in range(TOPICS)]
    for begin in range(0, TOPICS, BATCH):
        new = [NewTopic(name, PARTITIONS, 1) for name in names[begin : begin + BATCH]]
        for made in admin.create_topics(new, request_timeout=2 * DEADLINE_S).values():
            made.result()


def _take_all(
    browser: Browser, console: ServedConsole, folder: Path, pages: dict[str, str]
) -> None:
    for scheme in ("light", "dark"):
        for width in (360, 1600):
            _take(browser, console, folder / f"{scheme}-{width}", pages, width, scheme)


def _take(
    browser: Browser,
    console: ServedConsole,
    folder: Path,
    pages: dict[str, str],
    width: int,
    scheme: str,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page = _new_page(browser, console, width, scheme)
    for name, path in pages.items():
        page.goto(path)
        _wait_until_shown(page)
        page.screenshot(path=folder / f"{name}.png", full_page=width < 1000)
    page.close()


def _take_dialogs(browser: Browser, console: ServedConsole, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for width, scheme in ((360, "dark"), (1600, "light")):
        page = _new_page(browser, console, width, scheme)
        for name, (path, button) in DIALOGS.items():
            page.goto(path)
            page.get_by_role("button", name=button).first.click()
            page.screenshot(path=folder / f"{name}-{width}.png")
        page.close()


def _new_page(browser: Browser, console: ServedConsole, width: int, scheme: str) -> Page:
    return browser.new_page(
        base_url=console.server.address,
        viewport={"width": width, "height": 860},
        color_scheme="dark" if scheme == "dark" else "light",
    )


def _wait_until_shown(page: Page) -> None:
    if page.locator("[data-search]").count():
        page.locator("[data-search-stop]").wait_for(state="hidden")


if __name__ == "__main__":
    main()
