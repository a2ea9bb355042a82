"""`headrace topic`, `config`, `cluster` and `kafka-topics` against a real broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.brokers.processes import free_port
from support.cli.command import Cli
from support.waiting import wait_for

NewName = Callable[[], str]


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> Cli:
    return Cli(bootstrap, tmp_path)


def test_a_topic_is_created_listed_described_and_deleted(cli: Cli, new_name: NewName) -> None:
    name = new_name()
    assert cli.ok("topic", "create", name, "-p", "3", "-c", "retention.ms=1000") == (
        f"created topic {name}\n"
    )
    assert [name, "3", "1"] in [line.split() for line in cli.ok("topic", "list").splitlines()]
    assert cli.ok("topic", "list", f"{name[:-1]}?").count("\n") == 2
    facts = json.loads(cli.ok("topic", "describe", name, "--format", "json"))
    assert facts[0]["configs"] == {"retention.ms": "1000"}
    assert [each["end_offset"] for each in facts[0]["partitions"]] == [0, 0, 0]
    assert "retention.ms  1000" in cli.ok("topic", "describe", name)
    assert cli.ok("topic", "delete", name, "--execute") == f"deleted topic {name}\n"
    assert name not in cli.ok("topic", "list")


def test_a_mix_of_failures_and_successes_is_a_partial_success(
    cli: Cli, topic: str, new_name: NewName
) -> None:
    new = new_name()
    ended = cli("topic", "create", topic, new, "--format", "json")
    assert ended.code == 3
    facts = json.loads(ended.stdout)
    assert {each["name"]: each["status"] for each in facts} == {topic: "failed", new: "created"}
    assert "TOPIC_ALREADY_EXISTS" in ended.stderr
    again = cli("topic", "create", topic, "--if-not-exists")
    assert again.code == 0
    assert "already exists" in again.stderr


def test_a_dry_run_creates_nothing(cli: Cli, new_name: NewName) -> None:
    name = new_name()
    assert cli.ok("topic", "create", name, "--dry-run") == f"would create topic {name}\n"
    assert name not in cli.ok("topic", "list")


def test_an_unknown_topic_is_reported_with_a_similar_name(cli: Cli, topic: str) -> None:
    for words in (
        ("topic", "describe"),
        ("topic", "delete"),
        ("topic", "alter", "--set", "retention.ms=1"),
        ("topic", "trim", "--before", "end"),
        ("topic", "add-partitions", "--num", "1"),
        ("consume", "-e"),
        ("produce", "-v", "x", "--no-create"),
        ("config", "get", "topic"),
    ):
        ended = cli(*words, topic[:-2])
        assert ended.code == 4, (words, ended)
        assert f"Did you mean '{topic}'?" in ended.stderr


def test_settings_are_altered_and_unset(cli: Cli, topic: str) -> None:
    cli.ok("topic", "alter", topic, "--set", "retention.ms=5", "-s", "cleanup.policy=compact")
    shown = cli.ok("config", "get", "topic", topic, "--changed")
    assert re.search(r"cleanup\.policy +compact +topic", shown)
    cli.ok("topic", "alter", topic, "--unset", "cleanup.policy")
    cli.ok("config", "set", "topic", topic, "retention.ms=7")
    assert cli.ok("config", "get", "topic", topic, "retention.ms", "--format", "yaml") == (
        '- name: retention.ms\n  value: "7"\n  source: topic\n  read_only: false\n'
        "  sensitive: false\n"
    )
    wrong = cli("config", "set", "topic", topic, "retention.ms=soon")
    assert wrong.code == 1
    assert "retention.ms" in wrong.stderr
    assert cli("config", "get", "topic", topic, "retention.mss").code == 4
    assert cli("config", "set", "topic", topic).code == 2


def test_brokers_have_settings_too(cli: Cli) -> None:
    facts = json.loads(cli.ok("cluster", "status", "--format", "json"))
    broker = str(facts["brokers"][0]["id"])
    assert "num.partitions" in cli.ok("config", "get", "broker", broker)
    assert cli("config", "get", "broker", "4711").code == 4


def test_log_levels_are_shown_and_changed_while_the_broker_runs(cli: Cli) -> None:
    facts = json.loads(cli.ok("cluster", "status", "--format", "json"))
    broker, logger = str(facts["brokers"][0]["id"]), "headrace.broker.share"
    cli.ok("config", "set", "broker-logger", broker, f"{logger}=ERROR")
    shown = cli.ok("config", "get", "broker-logger", broker, "root", logger)
    assert re.search(r"headrace\.broker\.share +ERROR +dynamic-broker-logger", shown)
    cli.ok("config", "set", "broker-logger", broker, "--unset", logger)
    assert "ERROR" not in cli.ok("config", "get", "broker-logger", broker, logger)
    unknown = cli("config", "set", "broker-logger", broker, "headrace.nothing=INFO")
    assert (unknown.code, "Logger headrace.nothing does not exist!" in unknown.stderr) == (1, True)
    assert cli("config", "get", "broker-logger", "4711").code == 4


def test_added_partitions_come_with_a_warning_about_keys(cli: Cli, topic: str) -> None:
    ended = cli("topic", "add-partitions", topic, "--num", "2")
    assert ended.code == 0
    assert ended.stdout == f"{topic} grew from 1 to 3 partitions\n"
    assert "key" in ended.stderr
    assert cli("topic", "add-partitions", topic, "--total", "2").code == 2
    assert cli("topic", "add-partitions", topic).code == 2


def test_trimming_deletes_the_oldest_records(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, *(word for n in range(5) for word in ("-v", str(n))))
    facts = json.loads(
        cli.ok("topic", "trim", topic, "--before", "-2", "--execute", "--format", "json")
    )
    assert [(each["start_before"], each["start_offset"]) for each in facts] == [(0, 3)]
    assert cli.ok("consume", topic, "-e") == "3\n4\n"


def test_the_cluster_shows_its_brokers_in_every_format(cli: Cli) -> None:
    facts = json.loads(cli.ok("cluster", "status", "--format", "json"))
    assert facts["brokers"][0]["controller"] is True
    assert facts["cluster_id"] in cli.ok("cluster", "status", "--format", "yaml")
    assert facts["cluster_id"] in cli.ok("cluster", "status")


def test_an_unreachable_broker_is_exit_code_5_at_once(cli: Cli) -> None:
    ended = cli("topic", "list", "-b", f"127.0.0.1:{free_port()}")
    assert ended.code == 5
    assert "--bootstrap-server" in ended.stderr
    assert cli("topic", "list", "-b", "host:port:x").code == 2


def test_options_can_precede_the_command(cli: Cli, tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    assert cli("-b", nowhere, "topic", "list").code == 5
    file = tmp_path / "config.toml"
    file.write_text(f'[profiles.gone]\nbootstrap.servers = "{nowhere}"\n')
    env = {"HEADRACE_CONFIG": str(file), "HEADRACE_BOOTSTRAP": ""}
    assert cli("--profile", "gone", "topic", "list", env=env).code == 5
    listed = cli("profile", "list", "--format", "json", env=env)
    assert json.loads(listed.stdout)[0]["bootstrap_servers"] == nowhere


def test_secrets_are_hidden_and_missing_secrets_are_reported(cli: Cli) -> None:
    shown = cli("profile", "show", "-X", "sasl.password=hush", "-X", "sasl.username=me")
    assert "hush" not in shown.stdout
    assert "me" in shown.stdout
    missing = cli(
        "topic", "list", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"
    )
    assert missing.code == 2
    assert "sasl.username" in missing.stderr


def test_kafka_topics_output_matches_kafkas_own_tool(cli: Cli, new_name: NewName) -> None:
    name = new_name()
    base = ("kafka-topics", "--topic", name)
    created = cli.ok(*base, "--create", "--partitions", "2", "--replication-factor", "1")
    assert created == f"Created topic {name}.\n"
    twice = cli(*base, "--create")
    assert twice.code == 1
    assert twice.stdout == (
        f"Error while executing topic command : Topic '{name}' already exists.\n"
    )
    assert cli.ok(*base, "--create", "--if-not-exists") == ""
    assert name in cli.ok("kafka-topics", "--list").splitlines()
    described = cli.ok(*base, "--describe").splitlines()
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\t"
        r"ReplicationFactor: 1\tConfigs: .*",
        described[0],
    )
    assert re.fullmatch(
        rf"\tTopic: {name}\tPartition: 1\tLeader: (\d+)\tReplicas: \1\tIsr: \1\t"
        r"Elr: \S*\tLastKnownElr: \S*",
        described[2],
    )
    cli.ok(*base, "--alter", "--partitions", "3")
    assert len(cli.ok(*base, "--describe").splitlines()) == 4
    fewer = cli(*base, "--alter", "--partitions", "1")
    assert fewer.code == 1
    assert fewer.stdout.startswith("Error while executing topic command : ")
    assert cli.ok(*base, "--describe", "--under-replicated-partitions") == ""
    assert cli.ok(*base, "--delete") == ""
    gone = cli(*base, "--describe")
    assert gone.code == 1
    assert "does not exist as expected" in gone.stdout
    assert cli("kafka-topics").code == 2


def test_names_are_completed_from_the_cluster(
    bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.cli import completion

    class Line:
        params: dict[str, object] = {"bootstrap_server": bootstrap}  # noqa: RUF012

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = wait_for(
        lambda: completion.topics(Line(), topic[:-2]),  # type: ignore[arg-type]
        "the topic is offered",
    )
    assert topic in found
    Line.params = {"bootstrap_server": f"127.0.0.1:{free_port()}"}
    assert completion.topics(Line(), "") == []  # type: ignore[arg-type]
