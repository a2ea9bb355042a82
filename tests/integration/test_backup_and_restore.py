"""docs/guide/backup-and-restore.md on one node: a copied data directory serves everything."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from headrace.broker.membership.standalone import METADATA_FILE
from headrace.testing import Broker
from support.cli.command import Cli

READ_S = 20.0
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a stopped broker with records, offsets, transactions and security."""
    data = tmp_path_factory.mktemp("original") / "data"
    with Broker(data=data, settings=SETTINGS) as broker:
        servers = broker.bootstrap_servers
        cli = Cli(servers, data.parent)
        cli.ok("topic", "create", "orders", "-p", "1", "-c", "retention.ms=1000000000")
        cli.ok("produce", "orders", stdin="one\ntwo\nthree\n")
        cli.ok("consume", "orders", "-g", "billing", "-c", "2", "-o", "beginning")
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "copies"})
        producer.init_transactions(READ_S)
        for value, end in (
            (b"kept", producer.commit_transaction),
            (b"no", producer.abort_transaction),
        ):
            producer.begin_transaction()
            producer.produce("ledger", value)
            producer.flush(READ_S)
            end(READ_S)
        cli.ok(
            "acl",
            "create",
            "--allow-principal",
            "User:alice",
            "--operation",
            "read",
            "--topic",
            "orders",
        )
        cli.ok("user", "create", "alice", "--generate")
        cli.ok("quota", "set", "--user", "alice", "--producer-byte-rate", "1000")
    yield data


def values(servers: str, topic: str) -> list[bytes]:
    """All committed records of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(READ_S)
            assert message is not None
            if message.error() is not None:
                return found
            found.append(message.value())
    finally:
        consumer.close()


def test_a_copy_of_a_stopped_broker_serves_everything(original: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(original, tmp_path / "copy")
    with Broker(data=copy, settings=SETTINGS) as broker:
        servers = broker.bootstrap_servers
        cli = Cli(servers, tmp_path)
        assert values(servers, "orders") == [b"one", b"two", b"three"]
        assert values(servers, "ledger") == [b"kept"]
        assert cli.ok("consume", "orders", "-g", "billing", "-c", "1", "-f", "%v\n") == "three\n"
        assert "retention.ms" in cli.ok("topic", "describe", "orders")
        assert "User:alice" in cli.ok("acl", "list")
        assert "alice" in cli.ok("user", "list")
        assert "producer_byte_rate" in cli.ok("quota", "list")
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "copies"})
        producer.init_transactions(READ_S)
        producer.begin_transaction()
        producer.produce("ledger", b"more")
        producer.commit_transaction(READ_S)
        assert values(servers, "ledger") == [b"kept", b"more"]
    assert (copy / METADATA_FILE).stat().st_mode & 0o777 == 0o600


def test_without_the_metadata_file_records_and_offsets_survive_but_not_settings(
    original: Path, tmp_path: Path
) -> None:
    """The guide's last resort: topics, groups' offsets and transactions come from the logs."""
    copy = shutil.copytree(original, tmp_path / "copy")
    for file in copy.glob(f"{METADATA_FILE}*"):
        file.unlink()
    with Broker(data=copy, settings=SETTINGS) as broker:
        servers = broker.bootstrap_servers
        cli = Cli(servers, tmp_path)
        assert values(servers, "orders") == [b"one", b"two", b"three"]
        assert values(servers, "ledger") == [b"kept"]
        assert cli.ok("consume", "orders", "-g", "billing", "-c", "1", "-f", "%v\n") == "three\n"
        assert "1000000000" not in cli.ok("topic", "describe", "orders")
        assert "User:alice" not in cli.ok("acl", "list")
