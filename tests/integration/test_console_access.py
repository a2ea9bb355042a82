"""The administration screens show and change what the visitor's ACLs allow, and say what they do
not."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.testing import Broker
from headrace.testing.acls import allow
from support.console.client import ConsoleClient

PASSWORD = "a password"
ACLS = [
    allow("alice", "describe", topic="orders"),
    allow("alice", "describe", group="billing"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    users = {"alice": PASSWORD}
    with Broker(security="sasl_plaintext", users=users, acls=ACLS) as broker:
        broker.headrace.create_topic("orders")
        broker.headrace.produce("orders", "one")
        for group in ("billing", "secret"):
            consumer = Consumer({**broker.client_config("admin"), "group.id": group})
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            consumer.close()
        yield broker


@pytest.fixture(scope="module")
def console(broker: Broker) -> Iterator[ConsoleClient]:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
    }
    with ConsoleClient(settings) as console:
        console.log_in("alice", PASSWORD)
        yield console


def test_groups_are_those_that_the_visitor_may_describe(console: ConsoleClient) -> None:
    listed = console.get("/groups")
    assert "billing" in listed.text
    assert "secret" not in listed.text
    assert console.get("/groups/billing").status == 200
    refused = console.get("/groups/secret")
    assert refused.status == 403
    assert "GROUP_AUTHORIZATION_FAILED" in refused.text


@pytest.mark.parametrize("path", ["/users", "/acls", "/quotas"])
def test_what_the_cluster_does_not_show_is_a_part_of_the_page(
    console: ConsoleClient, path: str
) -> None:
    page = console.get(path)
    assert page.status == 200
    assert "Not permitted" in page.text
    assert "CLUSTER_AUTHORIZATION_FAILED" in page.text


def test_a_refused_change_says_who_refused_it(console: ConsoleClient) -> None:
    preview = console.post(
        "/groups/actions/seek-preview", group="billing", mode="latest", topic="", partitions=""
    )
    moved = console.post(
        "/groups/actions/seek", group="billing", offsets=preview.hidden("offsets"),
        confirm="billing",
    )  # fmt: skip
    assert "AUTHORIZATION_FAILED" in moved.text
    deleted = console.post("/groups/actions/delete", group="billing", confirm="billing")
    assert "Group billing was not deleted: GROUP_AUTHORIZATION_FAILED" in deleted.text
    elected = console.post("/brokers/actions/elect")
    assert elected.status == 403


def test_the_other_screens_open(console: ConsoleClient) -> None:
    for path in ("/brokers", "/brokers/1?tab=settings", "/transactions", "/dead-letters",
                 "/pipelines", "/share-groups"):  # fmt: skip
        page = console.get(path)
        assert page.status == 200, f"{path}: {page.text}"
