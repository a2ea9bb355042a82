"""`headrace produce` and `consume` against a real broker."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing import Broker
from support.cli.command import Cli
from support.wire.topics import MakeTopic

DEADLINE_S = 60
# The partitions that murmur2 in Java clients gives these keys.
JAVA_HASHES = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> Cli:
    return Cli(bootstrap, tmp_path)


def test_produced_lines_are_consumed(cli: Cli, topic: str) -> None:
    assert cli.ok("produce", topic, stdin="a\nb\nc\n") == (
        f"wrote 3 records to {topic}: partition 0 at 0-2\n"
    )
    assert cli.ok("consume", topic, "-e") == "a\nb\nc\n"
    assert cli.ok("consume", topic, "-c", "2", "-e") == "a\nb\n"
    assert cli.ok("consume", topic, "-o", "1", "-e") == "b\nc\n"
    assert cli.ok("consume", topic, "-o", "-1", "-e") == "c\n"
    assert cli.ok("consume", topic, "-o", "end", "-e") == ""


def test_keys_headers_and_formats(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-K", ":", "-H", "a=1", "-H", "b", stdin="k:v\n:x\n")
    shown = cli.ok("consume", topic, "-e", "-f", r"%t %p %o [%k] %v (%h)\n")
    assert shown == f"{topic} 0 0 [k] v (a=1,b)\n{topic} 0 1 [] x (a=1,b)\n"
    assert cli.ok("consume", topic, "-e", "-c", "1", "-K", "=", "--headers") == "a=1,b\tk=v\n"
    (first, _) = cli.ok("consume", topic, "-e", "--format", "json").splitlines()
    assert json.loads(first)["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": None}]


def test_keys_map_as_in_java_clients_and_keyless_records_rotate(
    cli: Cli, make_topic: MakeTopic
) -> None:
    topic = make_topic(4)
    expected = {key: (hashed & 0x7FFFFFFF) % 4 for key, hashed in JAVA_HASHES.items()}
    cli.ok("produce", topic, "-K", "\\t", stdin="".join(f"{key}\tv\n" for key in expected))
    shown = cli.ok("consume", topic, "-e", "-f", r"%k %p\n")
    assert {line.split()[0]: int(line.split()[1]) for line in shown.splitlines()} == expected
    in_turn = make_topic(3)
    facts = cli(
        *("produce", in_turn, "-k", "same", "--partitioner", "round-robin", "--format", "json"),
        stdin="1\n2\n3\n4\n",
    ).facts
    assert isinstance(facts, dict)
    assert [each["records"] for each in facts["partitions"]] == [2, 1, 1]


def test_json_output_can_be_produced_again(cli: Cli, make_topic: MakeTopic) -> None:
    source, copy = make_topic(), make_topic()
    cli.ok("produce", source, "-k", "k", "-v", "v", "-H", "h=x")
    cli.ok("produce", source, "-k", "k", "--tombstone")
    dump = cli.ok("consume", source, "-e", "--format", "json")
    cli.ok("produce", copy, "--input", "json", stdin=dump)
    again = cli.ok("consume", copy, "-e", "--format", "json")
    assert again == dump.replace(source, copy)


def test_numbers_are_decoded_and_invalid_numbers_are_explained(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--value-encoder", "int32", "-v", "7")
    assert cli.ok("consume", topic, "-e", "--value-decoder", "int32") == "7\n"
    assert cli.ok("consume", topic, "-e", "--value-decoder", "hex") == "00000007\n"
    wrong = cli("consume", topic, "-e", "--value-decoder", "int64")
    assert wrong.code == 1
    assert "--value-decoder" in wrong.stderr


def test_a_time_range_stops_by_itself(cli: Cli, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    lines = [
        json.dumps({"value": str(n), "timestamp": 1000 * n, "partition": n % 2})
        for n in range(1, 7)
    ]
    cli.ok("produce", topic, "--input", "json", stdin="\n".join(lines))
    shown = cli.ok("consume", topic, "-o", "s@2000", "-o", "e@5000")
    assert sorted(shown.split()) == ["2", "3", "4"]
    assert cli.ok("consume", topic, "-o", "s@6001", "-o", "e@9000") == ""
    assert cli.ok("consume", topic, "-p", "1", "-o", "s@1970-01-01T00:00:04Z", "-e") == "5\n"


def test_files_and_whole_inputs_are_produced(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\n")
    cli.ok("produce", topic, str(file), str(file))
    cli.ok("produce", topic, str(file), "--input", "raw")
    assert cli.ok("consume", topic, "-e") == "one\ntwo\none\ntwo\none\ntwo\n\n"
    assert cli("produce", topic, str(tmp_path / "none")).code == 1


def test_a_topic_is_created_by_the_first_record_unless_disabled(cli: Cli, new_name: object) -> None:
    name = new_name()  # type: ignore[operator]
    ended = cli("produce", name, "-v", "x")
    assert ended.code == 0
    assert f"created the topic '{name}'" in ended.stderr
    assert cli.ok("consume", name, "-e") == "x\n"


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "soon"),
        ("-f", "%q"),
        ("-f", "xml"),
        ("-p", "x"),
        ("-g", "g", "-o", "5"),
        ("-g", "g", "-p", "0"),
        ("--dead-letter", "d"),
        ("-X", "no.such.setting=1", "-e"),
        ("-X", "wrong"),
    ],
    ids=" ".join,
)
def test_mistakes_are_explained_with_exit_code_2(
    cli: Cli, topic: str, words: tuple[str, ...]
) -> None:
    ended = cli("consume", topic, *words)
    assert ended.code == 2, ended
    assert ended.stderr


def test_a_missing_partition_is_reported_as_not_found(cli: Cli, topic: str) -> None:
    assert cli("consume", topic, "-p", "7", "-e").code == 4
    assert cli("produce", topic, "-p", "7", "-v", "x").code == 4


def test_a_command_gets_each_record_and_failures_are_dead_lettered(
    cli: Cli, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(), make_topic()
    log = tmp_path / "log"
    cli.ok("produce", topic, "-k", "key", stdin="good\nbad\nfine\n")
    script = (
        f'read value; echo "$HEADRACE_KEY $HEADRACE_OFFSET $value" >> {log}; test $value != bad'
    )
    ended = cli("consume", topic, "-e", "--exec", script, "--dead-letter", dead)
    assert ended.code == 3, ended
    assert log.read_text() == "key 0 good\nkey 1 bad\nkey 2 fine\n"
    (letter,) = cli.ok("consume", dead, "-e", "--format", "json").splitlines()
    record = json.loads(letter)
    headers = {each["key"]: each["value"] for each in record["headers"]}
    assert (record["key"], record["value"]) == ("key", "bad")
    assert headers["__dlq.errors.topic"] == topic
    assert headers["__dlq.errors.offset"] == "1"
    assert headers["__dlq.errors.message"] == "exit code 1"


def test_without_a_dead_letter_topic_the_first_failure_ends_the_run(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, stdin="bad\nnever\n")
    ended = cli("consume", topic, "-e", "--exec", "echo seen; exit 1")
    assert ended.code == 1
    assert "offset 0" in ended.stderr
    assert "--dead-letter" in ended.stderr


@pytest.fixture
def tailing(bootstrap: str, tmp_path: Path) -> Iterator["Tail"]:
    tail = Tail(bootstrap, tmp_path)
    yield tail
    tail.end()


class Tail:
    """`headrace consume` in a separate process, for signals and pipes."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self._environment = {
            **os.environ,
            "HEADRACE_BOOTSTRAP": bootstrap,
            "XDG_CONFIG_HOME": str(home),
        }
        self.process: subprocess.Popen[str] | None = None
        self._limit: threading.Timer | None = None

    def start(self, *words: str) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        self._limit = threading.Timer(DEADLINE_S, self.process.kill)
        self._limit.start()  # a missing line fails its test, not the whole run
        return self.process

    def end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit.join()
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_live_tail_shows_new_records_and_ends_cleanly(
    tailing: Tail, bootstrap: str, topic: str, number: signal.Signals, code: int
) -> None:
    process = tailing.start("consume", topic)
    assert process.stdout is not None
    producer = Producer({"bootstrap.servers": bootstrap})
    for word in ("first", "second"):
        producer.produce(topic, word)
        assert producer.flush(DEADLINE_S) == 0
        assert process.stdout.readline() == f"{word}\n"
    process.send_signal(number)
    _, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code
    assert complaints == ""


def test_a_closed_output_pipe_prints_no_error(tailing: Tail, cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, stdin="x\n" * 2000)
    process = tailing.start("consume", topic, "-e")
    assert process.stdout is not None
    assert process.stdout.readline() == "x\n"
    process.stdout.close()
    assert process.wait(DEADLINE_S) in {0, 141}, "all of it may have been in the pipe already"
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    tailing.process = None


def test_without_auto_creation_a_missing_topic_is_not_written(tmp_path: Path) -> None:
    with Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        cli = Cli(broker.bootstrap_servers, tmp_path)
        cli.ok("topic", "create", "orders")
        ended = cli("produce", "order", "-v", "x")
        assert ended.code == 4
        assert "Did you mean 'orders'?" in ended.stderr
    assert cli("produce", "orders", "-v", "x").code == 5, "it has been stopped"
