"""Every page of the web console opens for a cluster of Apache Kafka."""

from collections.abc import Iterator

import pytest

from support.clients.java import KafkaNode
from support.console.client import Answer, ConsoleClient
from support.console.scene import BROKER_SETTINGS, PAGES, fill
from support.waiting import wait_for

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def console(kafka_lib: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    home = tmp_path_factory.mktemp("console") / "kafka"
    with KafkaNode(home, settings=_settings()) as node:
        fill(node.bootstrap_servers)
        with ConsoleClient(node.bootstrap_servers) as console:
            yield console


def _settings() -> dict[str, object]:
    return {**BROKER_SETTINGS, "group.initial.rebalance.delay.ms": 0}


def shows(console: ConsoleClient, path: str, text: str) -> Answer:
    """The page, once it shows the text: the snapshot follows the cluster."""
    seen: list[Answer] = []

    def is_shown() -> bool:
        seen[:] = [console.get(path)]
        return text in seen[0].text

    wait_for(is_shown, f"{path} shows {text!r}", deadline_s=DEADLINE_S)
    return seen[0]


@pytest.mark.parametrize("path", PAGES.values())
def test_each_page_opens(console: ConsoleClient, path: str) -> None:
    answer = console.get(path)
    assert answer.status == 200, answer.text


def test_lag_transactions_dead_letters_and_pipelines_are_those_of_the_cluster(
    console: ConsoleClient,
) -> None:
    assert "Healthy" in shows(console, "/", "Healthy").text
    shows(console, "/groups/billing", "Lag 108 records in 6 partitions")
    shows(console, "/transactions", "checkout CompleteCommit")
    shows(console, "/dead-letters/orders.dlq", "Dead letters 4")
    shows(console, "/pipelines/orders_to_lake", "Table version 8810")
    shows(console, "/acls", "Which rule decides?")
