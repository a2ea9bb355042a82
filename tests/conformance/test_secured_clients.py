"""Clients of other projects connect with certificates, SCRAM and bearer tokens, all through TLS."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from headrace.local_security import properties_text
from support.clients.java import run, run_and_read_errors
from support.clients.programs import (
    BUILD_TIMEOUT_S,
    STREAMS_DEADLINE_S,
    StreamsInstance,
    run_program,
)
from support.security.secured_listeners import (
    LOGINS,
    UNTRUSTED,
    SecuredListeners,
    Settings,
    secured_listeners,
)
from support.waiting import wait_for

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LINES = ["the log", "is the promise", "the log"]
EVERY_LOGIN = pytest.mark.parametrize("login", LOGINS)
EVERY_LANGUAGE = pytest.mark.parametrize("client", ["franz_go", "kafkajs"])

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + STREAMS_DEADLINE_S)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredListeners]:
    with secured_listeners(tmp_path_factory.mktemp("secured")) as listeners:
        yield listeners


def in_json(settings: Settings, folder: Path) -> str:
    path = folder / "client.json"
    path.write_text(json.dumps(settings))
    return str(path)


def in_properties(settings: Settings, folder: Path) -> str:
    path = folder / "client.properties"
    path.write_text(properties_text(settings))
    return str(path)


@EVERY_LOGIN
@EVERY_LANGUAGE
def test_a_client_of_another_language_does_everything(
    request: pytest.FixtureRequest,
    secured: SecuredListeners,
    tmp_path: Path,
    name: str,
    client: str,
    login: str,
) -> None:
    command: list[str] = request.getfixturevalue(client)
    settings = secured.settings(login)
    arguments = [settings["bootstrap.servers"], name, in_json(settings, tmp_path)]
    assert run_program([*command, *arguments], tmp_path).strip().endswith("ok")


@EVERY_LANGUAGE
@pytest.mark.parametrize(
    ("login", "user", "password", "reason"),
    [
        ("SCRAM-SHA-256", "alice", "wrong", "invalid credentials"),
        ("SCRAM-SHA-512", UNTRUSTED, "sec,ret=", "not authorized"),
        ("mTLS", UNTRUSTED, "", "not authorized"),
        ("OAUTHBEARER", UNTRUSTED, "", "not authorized"),
    ],
)
def test_a_client_of_another_language_is_told_why_it_is_refused(
    request: pytest.FixtureRequest,
    secured: SecuredListeners,
    tmp_path: Path,
    name: str,
    client: str,
    login: str,
    user: str,
    password: str,
    reason: str,
) -> None:
    command: list[str] = request.getfixturevalue(client)
    settings = secured.settings(login, user, password)
    arguments = [settings["bootstrap.servers"], name, in_json(settings, tmp_path)]
    with pytest.raises(AssertionError) as refused:
        run_program([*command, *arguments], tmp_path)
    assert reason in str(refused.value).lower()


@EVERY_LOGIN
def test_kafkas_tools_write_and_read(
    secured: SecuredListeners, tmp_path: Path, name: str, login: str
) -> None:
    settings = secured.java(login)
    options = (*secured.java_options(),)
    shared = (
        *("--bootstrap-server", settings["bootstrap.servers"], "--topic", name),
        *("--command-config", in_properties(settings, tmp_path)),
    )
    run(*options, PRODUCER, *shared, stdin="one\ntwo\n")
    whole = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000", "--group", name)
    assert sorted(run(*options, CONSUMER, *shared, *whole).split()) == ["one", "two"]
    refused = secured.java(login, UNTRUSTED)
    shared = (*shared[:-1], in_properties(refused, tmp_path))
    errors = run_and_read_errors(*secured.java_options(UNTRUSTED), CONSUMER, *shared, *whole)
    assert "TopicAuthorizationException" in errors  # the tool ends with 0 all the same


@EVERY_LOGIN
def test_kafka_streams_counts_words_exactly_once(
    secured: SecuredListeners, streams_classes: Path, tmp_path: Path, name: str, login: str
) -> None:
    # Invariant: a word that came n times has the counts 1 to n, in order, each of them once.
    client = rdkafka(secured.settings("SCRAM-SHA-512"))
    lines, counts = f"{name}-lines", f"{name}-counts"
    producer = Producer(client)
    for line in LINES:
        producer.produce(lines, line)
    producer.produce(counts, key="first", value="0")
    assert producer.flush(STREAMS_DEADLINE_S) == 0

    settings = secured.java(login)
    home = tmp_path / "instance"
    arguments = [settings["bootstrap.servers"], name, lines, counts, str(home)]
    arguments.append(in_properties(settings, tmp_path))
    instance = StreamsInstance(streams_classes, home, arguments, secured.java_options())
    reading = {"group.id": f"{name}-reader", "auto.offset.reset": "earliest"}
    reader = Consumer({**client, **reading, "isolation.level": "read_committed"})
    reader.subscribe([counts])
    total = Counter(" ".join(LINES).split())
    found: dict[str, list[int]] = {}

    def complete() -> bool:
        for message in reader.consume(100, 0.2):
            assert not message.error(), message.error()
            found.setdefault(message.key().decode(), []).append(int(message.value()))
        return sum(map(len, found.values())) > total.total()

    try:
        instance.wait_until_it_runs()
        wait_for(complete, "every word is counted", deadline_s=STREAMS_DEADLINE_S)
    finally:
        instance.end(signal.SIGTERM)
        reader.close()
    assert found.pop("first") == [0]
    assert found == {word: list(range(1, times + 1)) for word, times in total.items()}


def rdkafka(settings: Settings) -> dict[str, str]:
    """The settings that librdkafka knows."""
    return {name: value for name, value in settings.items() if name != "token.file"}
