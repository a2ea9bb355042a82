"""`headrace client-metrics`: subscriptions are created, changed, shown and deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Broker
from support.cli.command import Cli


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.bootstrap_servers, tmp_path)


def test_a_subscription_is_created_changed_shown_and_deleted(cli: Cli) -> None:
    group = "client-metrics"
    created = cli(
        *(group, "create", "java", "--metrics", "org.apache.kafka.producer.,a.", "--metrics", "b."),
        *("--interval", "30s", "--match", "client_id=app-.*", "--match", "client_software_name=x"),
    )
    assert (created.code, created.stdout) == (0, "created subscription java\n")
    assert not created.stderr  # the broker has a receiver
    assert cli(group, "create", "java", "--metrics", "*").code == 1
    cli.ok(group, "alter", "java", "--interval", "1m")
    facts = {
        "name": "java",
        "metrics": "org.apache.kafka.producer.,a.,b.",
        "interval.ms": "60000",
        "match": "client_id=app-.*,client_software_name=x",
    }
    assert cli(group, "list", "--format", "json").facts == [facts]
    assert cli(group, "describe", "java", "--format", "json").facts == [facts]
    cli.ok(group, "alter", "java", "--match-all")
    assert "all clients" in cli.ok(group, "describe")

    assert cli(group, "describe", "jav").code == 4
    bad = cli(group, "alter", "java", "--match", "client_name=x")
    assert "Illegal client matching pattern: client_name=x (INVALID_CONFIG)" in bad.stderr
    assert cli(group, "alter", "java").code == 2

    planned = cli(group, "delete", "java")
    assert "Nothing was changed. Add --execute to delete subscription java" in planned.stderr
    assert cli.ok(group, "delete", "java", "--execute") == "deleted subscription java\n"
    assert cli(group, "list", "--format", "json").facts == []
    assert cli(group, "delete", "java", "--execute").code == 4


def test_the_user_learns_that_the_broker_accepts_no_metrics(tmp_path: Path) -> None:
    with Broker(settings={"headrace.client.metrics.enable": False}) as broker:
        done = Cli(broker.bootstrap_servers, tmp_path)(
            "client-metrics", "create", "all", "--metrics", "*"
        )
    assert done.code == 0
    assert "accepts no client metrics" in done.stderr
