"""Debian's Chromium under Playwright, and the scenes that the tests and the screenshots show."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
HOSTILE = '<script>document.title="owned"</script><img src=x onerror="document.title=1">'


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser that `script/test` installs."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path is not None, "no Chromium is installed: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def fill(servers: str) -> None:
    """Topics with records and a group, so that every screen has something to show."""
    admin = AdminClient({"bootstrap.servers": servers})
    names = ("orders", "payments", "shipments", "customers", "hostile", "audit.log")
    made = admin.create_topics([NewTopic(name, 6, 1) for name in names])
    for future in made.values():
        future.result()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(600):
        order = {
            "id": number,
            "customer": {"id": number % 97, "country": ("DE", "FR", "NL")[number % 3]},
            "total": round(number * 7.31 % 500, 2),
            "items": [{"sku": f"S-{number % 13}", "quantity": number % 5 + 1}],
        }
        producer.produce(
            names[number % 4],
            key=f"customer-{number % 97}",
            value=json.dumps(order),
            headers={"trace": f"t-{number}"},
            partition=number % 6,
        )
    producer.produce("hostile", HOSTILE.encode(), key=b"<b>\x1b[2J", partition=0)
    producer.produce("hostile", b"\x00\x01\xff" * 400, partition=0)
    producer.produce("hostile", "\u202egnp.exe \u0007\x00 bell".encode(), partition=0)
    producer.produce("hostile", b'{"long": "' + b"x" * 900_000 + b'"}', partition=0)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
    offsets = [TopicPartition("orders", partition, 7) for partition in range(6)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
