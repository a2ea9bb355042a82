"""`headrace txn` against a real broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from support.cli.command import Cli
from support.waiting import wait_for

DEADLINE_S = 60.0
NewName = Callable[[], str]


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> Cli:
    return Cli(bootstrap, tmp_path)


def facts_of(cli: Cli, *words: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(cli.ok(*words, "--format", "json"))
    return found


def test_an_open_transaction_is_listed_described_and_aborted(
    cli: Cli, bootstrap: str, topic: str, new_name: NewName
) -> None:
    name = new_name()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, "never", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    assert re.search(rf"^{name} +\d+ +Ongoing ", cli.ok("txn", "list"), re.MULTILINE)
    assert name not in cli.ok("txn", "list", "--state", "Empty")
    assert name not in cli.ok("txn", "list", "--longer-than", "1d")
    facts = facts_of(cli, "txn", "describe", name)
    assert facts["state"] == "Ongoing"
    assert facts["partitions"] == [f"{topic}-0"]
    assert cli.ok("consume", topic, "-e") == ""
    assert cli.ok("consume", topic, "-e", "--uncommitted") == "never\n"
    assert cli.ok("txn", "abort", name, "--execute") == f"aborted {name} (state before: Ongoing)\n"
    wait_for(
        lambda: facts_of(cli, "txn", "describe", name)["state"] in {"Empty", "CompleteAbort"},
        "the transaction has ended",
        deadline_s=DEADLINE_S,
    )
    with pytest.raises(KafkaException):  # its producer is fenced
        producer.commit_transaction(DEADLINE_S)


def test_an_unknown_transactional_id_is_reported_with_a_similar_one(
    cli: Cli, bootstrap: str, new_name: NewName
) -> None:
    name = new_name()
    Producer({"bootstrap.servers": bootstrap, "transactional.id": name}).init_transactions(
        DEADLINE_S
    )
    for words in (("describe",), ("abort",)):
        ended = cli("txn", *words, name[:-1])
        assert ended.code == 4
        assert f"Did you mean '{name}'?" in ended.stderr
    assert cli("txn", "abort").code == 2
    assert cli("txn", "abort", name, "--topic", "t").code == 2
    assert cli("txn", "list", "--longer-than", "soon").code == 2


def test_a_transaction_known_to_its_coordinator_is_not_hanging(
    cli: Cli, bootstrap: str, topic: str, new_name: NewName
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": new_name()})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, "x", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    assert (
        json.loads(cli.ok("txn", "find-hanging", topic, "--older-than", "0s", "--format", "json"))
        == []
    )
    wrong = cli("txn", "abort", "--topic", topic, "--partition", "0", "--start-offset", "77")
    assert wrong.code == 4
    where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    assert "aborted the transaction at 0" in cli.ok("txn", "abort", *where, "--execute")
    assert cli.ok("consume", topic, "-e") == ""
