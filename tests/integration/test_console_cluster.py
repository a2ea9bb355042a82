"""The console's screens of brokers and reassignments against three real brokers."""

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Cluster
from support.console.client import Answer, ConsoleClient
from support.waiting import wait_for

DEADLINE_S = 60.0
BIG_VALUE = b"x" * 100_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=("a", "b", "c")) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [
            NewTopic("small", replica_assignment=[[1, 2], [2, 1]], num_partitions=2),
            NewTopic("big", replica_assignment=[[1, 2]], num_partitions=1),
        ]
        for created in admin.create_topics(topics).values():
            created.result(DEADLINE_S)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for _ in range(60):
            producer.produce("big", BIG_VALUE)
        assert producer.flush(DEADLINE_S) == 0
        yield cluster


@pytest.fixture(scope="module")
def console(cluster: Cluster) -> Iterator[ConsoleClient]:
    with ConsoleClient(cluster.bootstrap_servers, request_timeout_s=1.5) as console:
        yield console


def eventually(look: Callable[[], Answer], pattern: str) -> Answer:
    seen: list[Answer] = []

    def shown() -> bool:
        seen[:] = [look()]
        return re.search(pattern, seen[0].text) is not None

    wait_for(shown, f"the page shows {pattern!r}", deadline_s=DEADLINE_S)
    return seen[0]


def test_a_broker_is_emptied_as_its_preview_said(console: ConsoleClient) -> None:
    preview = console.post(
        "/reassignments/preview", kind="empty", broker="1", topics="small", factor="", throttle=""
    )
    assert "Partitions 2 Replicas to copy 2" in preview.text
    assert "small-0 1, 2 3, 2 3" in preview.text
    plan = preview.hidden("plan")
    refused = console.post("/reassignments/actions/start", plan=plan, throttle="", confirm="")
    assert refused.status == 400
    started = console.post(
        "/reassignments/actions/start", plan=plan, throttle="", confirm="reassign"
    )
    assert "Started to move 2 partitions." in started.text
    eventually(lambda: console.get("/reassignments"), "No reassignment in progress")
    again = console.post(
        "/reassignments/preview", kind="empty", broker="1", topics="small", factor="", throttle=""
    )
    assert "Nothing to move" in again.text


def test_a_throttled_move_shows_its_progress_and_is_cancelled(console: ConsoleClient) -> None:
    preview = console.post(
        "/reassignments/preview", kind="factor", topics="big", factor="3", throttle="50k"
    )
    assert "Replicas to copy 1" in preview.text
    started = console.post(
        "/reassignments/actions/start", plan=preview.hidden("plan"), throttle="50k",
        confirm="reassign",
    )  # fmt: skip
    assert "Started to move 1 partition." in started.text
    moving = eventually(lambda: console.get("/reassignments"), r"big -0 1, 2, 3 3")
    assert "Replication is limited on brokers" in moving.text
    assert re.search(r"\d+ % copied", moving.text)
    busy = console.post(
        "/reassignments/preview", kind="factor", topics="big", factor="1", throttle=""
    )
    assert "big-0 is already moving" in busy.text
    cancelled = console.post("/reassignments/actions/cancel", confirm="cancel")
    assert "Cancelled the move of 1 partition." in cancelled.text
    eventually(lambda: console.get("/reassignments"), "No reassignment in progress")
    done = console.post("/reassignments/actions/unthrottle")
    assert "Removed the replication limits." in done.text
    assert "No replication limit is set." in console.post("/reassignments/actions/unthrottle").text


def test_a_dead_broker_is_shown_as_such_and_the_screens_still_open(
    console: ConsoleClient, cluster: Cluster
) -> None:
    victim = next(broker for broker in (1, 2, 3) if broker != cluster.controller)
    cluster.kill(victim)
    page = eventually(lambda: console.get("/brokers"), r"Fenced|Does not answer")
    assert "controller" in page.text
    for path in (
        "/groups",
        "/transactions",
        "/reassignments",
        f"/brokers/{victim}?tab=settings",
        "/users",
    ):
        assert console.get(path).status == 200, path
    cluster.restart(victim)  # the other tests need all brokers
    cluster.wait_until_healthy()
