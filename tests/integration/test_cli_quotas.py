"""`headrace quota`: limits are set, listed, explained and removed."""

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


def test_quotas_are_set_listed_described_and_removed(cli: Cli) -> None:
    done = cli.ok(
        *("quota", "set", "--user", "alice", "--client-id", "etl"),
        *("--producer-byte-rate", "1MB", "--request-percentage", "12.5"),
    )
    assert done == (
        "set for user alice, client etl: producer_byte_rate 1MB/s, request_percentage 12.5%\n"
    )
    cli.ok("quota", "set", "--user-default", "--controller-mutation-rate", "10")
    cli.ok("quota", "set", "--ip", "10.0.0.7", "--connection-creation-rate", "20")
    listed = cli("quota", "list", "--format", "json")
    assert listed.facts == [
        {
            "entity": {"client-id": "etl", "user": "alice"},
            "limits": {"producer_byte_rate": 1_000_000.0, "request_percentage": 12.5},
        },
        {"entity": {"ip": "10.0.0.7"}, "limits": {"connection_creation_rate": 20.0}},
        {"entity": {"user": None}, "limits": {"controller_mutation_rate": 10.0}},
    ]
    assert "default user" in cli.ok("quota", "list", "--user-default")
    assert cli("quota", "list", "--user", "bob", "--format", "json").facts == []

    described = cli.ok("quota", "describe", "--user", "alice", "--client-id", "etl")
    rows = [line.split(maxsplit=2) for line in described.splitlines()]
    assert ["producer_byte_rate", "1MB/s", "user alice, client etl"] in rows
    assert ["controller_mutation_rate", "10/s", "default user"] in rows
    assert "unlimited" in described
    assert "20/s" in cli.ok("quota", "describe", "--ip", "10.0.0.7")

    pair = ("quota", "unset", "--user", "alice", "--client-id", "etl")
    planned = cli(*pair)
    assert (planned.code, "1MB/s" in planned.stdout) == (0, True)
    assert "Nothing was changed. Add --execute to remove 2 quotas of user alice" in planned.stderr
    cli.ok(*pair, "producer-byte-rate", "--execute")
    assert "producer_byte_rate" not in cli.ok("quota", "list")
    cli.ok(*pair, "--execute")
    assert cli(*pair, "--execute").code == 4


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    words = ("quota", "set", "--user", "carol", "--producer-byte-rate", "5MiB", "--dry-run")
    assert cli.ok(*words) == "would set for user carol: producer_byte_rate 5MiB/s\n"
    assert "carol" not in cli.ok("quota", "list")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("set", "--producer-byte-rate", "1MB"), 2, "say whose quota"),
        (("set", "--user", "alice"), 2, "nothing to set"),
        (("set", "--user", "a", "--user-default"), 2, "give either --user or --user-default"),
        (("set", "--user", "a", "--ip", "::1"), 2, "has no user and no client id"),
        (("set", "--user", "a", "--producer-byte-rate", "fast"), 2, "takes bytes per second"),
        (("set", "--user", "a", "--request-percentage", "-1"), 1, "must be greater than 0"),
        (
            ("set", "--user", "a", "--connection-creation-rate", "1"),
            1,
            "quota of user a: Invalid configuration key connection_creation_rate",
        ),
        (("set", "--ip", "moon", "--connection-creation-rate", "1"), 1, "not a valid IP address"),
        (("unset", "--user", "a", "producer_rate"), 2, "did you mean 'producer_byte_rate'?"),
        (("describe",), 2, "say whose quota"),
    ],
)
def test_mistakes_are_explained(cli: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    ended = cli("quota", *words)
    assert (ended.code, message in ended.stderr) == (code, True), ended
