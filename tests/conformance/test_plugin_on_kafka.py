"""`headrace_noproc`: the helper for tests works on Apache Kafka as on our own broker."""

from pathlib import Path

import pytest

from support.brokers.processes import BrokerProcess
from support.cli.pytest_runs import run_pytest
from support.clients.java import KafkaNode

SUITE = """
import os

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from headrace.client.errors import RequestRefused
from headrace.testing import factories
from headrace.testing.external import NotOurs

elsewhere = factories.headrace("headrace_noproc")


def test_the_broker_is_the_one_that_was_named(elsewhere, headrace_noproc):
    assert headrace_noproc.bootstrap_servers == os.environ["HEADRACE_BOOTSTRAP"]
    assert elsewhere.bootstrap_servers == os.environ["HEADRACE_BOOTSTRAP"]
    with pytest.raises(NotOurs):
        elsewhere.trouble
    with pytest.raises(NotOurs):
        elsewhere.clock


@pytest.mark.parametrize("round", range(3))
def test_each_test_finds_what_was_there_before_and_nothing_else(elsewhere, round):
    assert "orders" not in elsewhere.topics()
    assert "billing" not in elsewhere.groups()
    assert elsewhere.create_topic("orders", partitions=3) == "orders"
    with pytest.raises(RequestRefused):
        elsewhere.create_topic("orders")
    written = elsewhere.produce("orders", "one", "two", key="k", headers={"h": "1"})
    assert [place.offset for place in written] == [0, 1]
    received = elsewhere.consume("orders", 2)
    assert [(one.key, one.value, one.headers) for one in received] == [
        (b"k", b"one", (("h", b"1"),)),
        (b"k", b"two", (("h", b"1"),)),
    ]
    place = written[0].partition
    elsewhere.commit("billing", {("orders", place): 1})
    assert elsewhere.lag("billing")[("orders", place)] == 1
    assert sum(elsewhere.lag("billing", "orders").values()) == 1
    assert elsewhere.groups()["billing"] == "Empty"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_put_out_and_come_back(elsewhere, protocol):
    elsewhere.create_topic("work", partitions=2)
    elsewhere.produce("work", *"abcdef")
    settings = {
        "bootstrap.servers": elsewhere.bootstrap_servers,
        "group.id": "workers",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["work"])
    got = set()

    def read_all():
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            got.add(message.value())
        return len(got) == 6

    elsewhere.wait_for(read_all, "all records are read", timeout_s=60)
    consumer.commit(asynchronous=False)
    elsewhere.wait_for_lag("workers", "work")
    (member,) = elsewhere.describe_group("workers").members
    for change in (elsewhere.force_rebalance, elsewhere.expire_session):
        change("workers")

        def is_back():
            consumer.poll(0.1)
            found = elsewhere.describe_group("workers")
            return found.state == "Stable" and len(found.members) == 1 and consumer.assignment()

        elsewhere.wait_for(is_back, "the member is back", timeout_s=60)
    # It is not closed: cleaning up takes its membership away.
    elsewhere.left_open = consumer


def test_a_group_whose_member_was_left_behind_is_gone(elsewhere):
    assert "workers" not in elsewhere.groups()


def test_a_fenced_producer_is_shut_out(elsewhere):
    elsewhere.create_topic("ledger")
    assert elsewhere.transaction("bank") is None
    producer = Producer(
        {"bootstrap.servers": elsewhere.bootstrap_servers, "transactional.id": "bank"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("ledger", b"1")
    producer.flush(30)
    elsewhere.fence_producer("bank")
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    elsewhere.wait_for(
        lambda: elsewhere.transaction("bank").state in ("Empty", "CompleteAbort"), "it is aborted"
    )
    assert elsewhere.consume("ledger", read_committed=True) == []
"""

INI = """[pytest]
filterwarnings = error
"""


def check(where: Path, bootstrap: str) -> None:
    (where / "pytest.ini").write_text(INI)
    (where / "test_suite.py").write_text(SUITE)
    output = run_pytest(
        where, "-p", "no:randomly", "-p", "no:xdist", "-rA", HEADRACE_BOOTSTRAP=bootstrap
    )
    assert "8 passed" in output, output


def test_the_helper_works_on_apache_kafka(tmp_path: Path, kafka: KafkaNode) -> None:
    check(tmp_path, kafka.bootstrap_servers)


@pytest.mark.usefixtures("kafka_lib")
def test_the_same_suite_on_headrace(tmp_path: Path, broker: BrokerProcess) -> None:
    check(tmp_path, broker.bootstrap_servers)
