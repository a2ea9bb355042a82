"""Each dead letter is replayed once: by filter, through a fix, by killed replays."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headrace.client.admin.topics import delete_topics
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters import replay
from headrace.pipeline.dead_letters.dead_letter_writer import DeadLetterWriter
from headrace.pipeline.dead_letters.filter import parse_filter
from headrace.pipeline.dead_letters.headers import facts_of, own_headers
from headrace.pipeline.dead_letters.python_fix import NotFixed, PythonFix
from headrace.pipeline.dead_letters.replay import Replay, ReplayResult, Request
from headrace.pipeline.producer import ProducerFenced, ProducerSettings
from headrace.pipeline.sinks.table_sink import BatchInfo
from headrace.pipeline.source.settings import ReadFailed
from headrace.records.codec import Codec
from headrace.testing import Broker
from headrace.testing.consumer import ReceivedRecord
from headrace.testing.helper import Headrace
from support.pipelines.staged_records import Bad, stage


@pytest.fixture(scope="module")
def helper() -> Iterator[Headrace]:
    with Broker() as broker:
        yield broker.headrace


@pytest.fixture
def settings(helper: Headrace) -> ProducerSettings:
    return ProducerSettings(helper.bootstrap_servers)


@pytest.fixture
def source(helper: Headrace) -> str:
    return helper.create_topic(partitions=2)


@pytest.fixture
def topic(source: str) -> str:
    return f"{source}.dlq"


@pytest.fixture
def letters(
    settings: ProducerSettings, source: str, topic: str, tmp_path: Path
) -> Iterator[DeadLetterWriter]:
    with DeadLetterWriter(topic, settings, f"p-{source}", tmp_path) as letters:
        yield letters


def set_aside(letters: DeadLetterWriter, folder: Path, batch_id: int, *bad: Bad) -> None:
    ranges = tuple(OffsetRange(bad[0].topic, at, 0, 1_000) for at in range(2))
    written = letters.write(BatchInfo("p", batch_id, ranges), [stage(folder, bad)])
    assert written == len(bad)


def sent(helper: Headrace, topic: str, count: int) -> list[ReceivedRecord]:
    """All committed records, once there are `count` of them."""
    if count:
        helper.consume(topic, count, read_committed=True)
    return sorted(
        helper.consume(topic, read_committed=True), key=lambda each: (each.partition, each.offset)
    )


def values(records: list[ReceivedRecord]) -> list[bytes | None]:
    return [each.value for each in records]


def run(settings: ProducerSettings, topic: str, **wanted: object) -> ReplayResult:
    return Replay(Request(topic, **wanted), settings).execute()  # type: ignore[arg-type]


def test_a_record_is_replayed_unchanged_to_its_partition_with_its_origin(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    set_aside(letters, tmp_path, 0, Bad(source, 1, 7, b"v", b"k", (("h", b"x"),)))
    assert run(settings, topic).sent == {source: 1}
    (record,) = sent(helper, source, 1)
    assert (record.partition, record.key, record.value) == (1, b"k", b"v")
    assert own_headers(record.headers) == (("h", b"x"),)
    assert facts_of(record.headers).attempts == 1
    assert dict(record.headers)["headrace.dlq.replayed.topic"] == topic.encode()
    assert dict(record.headers)["headrace.dlq.replayed.timestamp"] == b"1700000000123"


def test_a_replayed_record_is_not_sent_again_by_any_filter(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    bad = [Bad(source, 0, at, b"%d" % at, error="A" if at % 2 else "B") for at in range(6)]
    set_aside(letters, tmp_path, 0, *bad)
    first = run(settings, topic, where=parse_filter("error = A"))
    assert (first.matched, first.total) == (3, 3)
    everything = run(settings, topic)
    assert (everything.matched, everything.done_before, everything.total) == (6, 3, 3)
    assert run(settings, topic).total == 0
    assert values(sent(helper, source, 6)) == [b"1", b"3", b"5", b"0", b"2", b"4"]


def test_a_dry_run_sends_nothing_and_reports_its_plan(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    set_aside(letters, tmp_path, 0, Bad(source, 0, 1), Bad(source, 0, 2))
    outcome = Replay(Request(topic, limit=1), settings).dry_run()
    assert (outcome.sent, len(outcome.samples)) == ({source: 1}, 1)
    assert sent(helper, source, 0) == []
    assert f"{topic}.replayed" not in helper.topics()


def test_a_limit_leaves_the_rest_for_the_next_replay(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    set_aside(letters, tmp_path, 0, *(Bad(source, 0, at, b"%d" % at) for at in range(5)))
    assert run(settings, topic, limit=2).total == 2
    assert run(settings, topic, limit=2).total == 2
    assert run(settings, topic, limit=2).total == 1
    assert values(sent(helper, source, 5)) == [b"0", b"1", b"2", b"3", b"4"]


def test_another_topic_receives_records_partitioned_by_key(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    other = helper.create_topic(partitions=4)
    (expected,) = helper.produce(helper.create_topic(partitions=4), "x", key="some key")
    set_aside(letters, tmp_path, 0, Bad(source, 0, 1, b"v", b"some key"))
    assert run(settings, topic, to=other).sent == {other: 1}
    (record,) = sent(helper, other, 1)
    assert record.partition == expected.partition


def test_a_fix_changes_records_and_unfixable_records_stay(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    fix = tmp_path / "fix.py"
    fix.write_text(
        "def repair(record):\n"
        "    order = record.json()\n"
        "    if order['amount'] is None:\n"
        "        return None\n"
        "    order['amount'] = float(order['amount'])\n"
        "    record.value = order\n"
        "    return record\n"
    )
    bad = [b'{"amount": "1.5"}', b'{"amount": null}', b"broken", b'{"amount": "2"}']
    set_aside(letters, tmp_path, 0, *(Bad(source, 0, at, value) for at, value in enumerate(bad)))
    outcome = run(settings, topic, fix=PythonFix(f"{fix}:repair"))
    assert (outcome.total, outcome.not_fixed) == (2, 2)
    assert values(sent(helper, source, 2)) == [b'{"amount": 1.5}', b'{"amount": 2.0}']
    assert run(settings, topic).total == 2


def test_a_record_rejected_by_its_topic_stays_and_does_not_block_others(
    helper: Headrace, settings: ProducerSettings, letters: DeadLetterWriter, tmp_path: Path
) -> None:
    # Alone or together: many small records are several batches.
    limit = 2000
    small = helper.create_topic(partitions=2, configs={"max.message.bytes": limit})
    noise = Random(5)
    sizes = [limit, 300, 300, 300, 300, 300, 300, 300]
    bad = [Bad(small, 0, at, noise.randbytes(size)) for at, size in enumerate(sizes)]
    set_aside(letters, tmp_path, 0, *bad)
    plain = settings._replace(codec=Codec.NONE)
    shown = Replay(Request(letters.topic), plain).dry_run()
    outcome = run(plain, letters.topic)
    for found in (shown, outcome):
        assert (found.total, found.not_fixed) == (len(bad) - 1, 1)
        (reason,) = [made for _, made in found.samples if isinstance(made, NotFixed)]
        assert f"{small} takes {limit} (max.message.bytes)" in str(reason)
    assert values(sent(helper, small, len(bad) - 1)) == [each.value for each in bad[1:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("record.value = {'x': float('nan')}", "cannot be written as JSON"),
        ("record.value = '\\ud800'", "cannot be written"),
        ("record.key = '\\ud800'", "cannot be written"),
        ("record.headers = {'a': b'b'}", "headers are pairs"),
        ("record.headers = [('a', b'b'), 'c']", "headers are pairs"),
        ("record.headers = [('a', 5)]", "a is int"),
    ],
)
def test_a_fix_with_unwritable_output_is_rejected(
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
    change: str,
    said: str,
) -> None:
    fix = tmp_path / "fix.py"
    fix.write_text(f"def repair(record):\n    {change}\n    return record\n")
    set_aside(letters, tmp_path, 0, Bad(source, 0, 0, b"x"))
    outcome = run(settings, topic, fix=PythonFix(f"{fix}:repair"))
    assert (outcome.total, outcome.not_fixed) == (0, 1)
    assert said in str(outcome.samples[0][1])


def test_a_record_that_fails_again_counts_its_attempts(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    set_aside(letters, tmp_path, 0, Bad(source, 0, 1, b"v"))
    for attempt in (1, 2):
        assert run(settings, topic).total == 1
        record = sent(helper, source, attempt)[-1]
        assert facts_of(record.headers).attempts == attempt
        again = Bad(source, 0, record.offset, record.value, record.key, record.headers)
        set_aside(letters, tmp_path, attempt, again)
    waiting = run(settings, topic, where=parse_filter("attempts >= 2"))
    assert (waiting.matched, waiting.total) == (1, 1)


def test_the_group_offset_is_the_first_pending_dead_letter(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    helper.create_topic(topic)
    set_aside(letters, tmp_path, 0, *(Bad(source, 0, at) for at in range(4)))
    run(settings, topic, where=parse_filter("source.offset != 1"))
    lag = helper.lag(f"{topic}.replay", topic)
    assert sum(lag.values()) == 4  # dead letters 1, 2, 3 and the marker of the transaction
    run(settings, topic)
    assert sum(helper.lag(f"{topic}.replay", topic).values()) == 0


def test_a_later_replay_fences_an_earlier_one(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "LETTERS_AT_A_TIME", 1)
    set_aside(letters, tmp_path, 0, *(Bad(source, 0, at, b"%d" % at) for at in range(3)))
    earlier = Replay(Request(topic), settings)

    def interfere(outcome: ReplayResult) -> None:
        if outcome.total == 1:
            assert run(settings, topic).total == 2

    with pytest.raises(ProducerFenced):
        earlier.execute(interfere)
    assert values(sent(helper, source, 3)) == [b"0", b"1", b"2"]


def test_dead_letters_of_a_recreated_topic_are_distinct(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    set_aside(letters, tmp_path, 0, Bad(source, 0, 1, b"old"))
    run(settings, topic)
    helper._call(lambda client: delete_topics(client, [topic], timeout_s=30))
    helper.wait_for(lambda: topic not in helper.topics(), "the topic is gone")
    with DeadLetterWriter(topic, settings, f"again-{source}", tmp_path / "anew") as anew:
        set_aside(anew, tmp_path, 1, Bad(source, 0, 2, b"new"))
    assert run(settings, topic).total == 1
    assert values(sent(helper, source, 2)) == [b"old", b"new"]


def test_a_missing_topic_is_reported_by_name(settings: ProducerSettings) -> None:
    with pytest.raises(ReadFailed, match="there is no topic nothing"):
        run(settings, "nothing")


KILLED = """
import os, signal, sys
from headrace.pipeline.dead_letters import replay
from headrace.pipeline.producer import ProducerSettings, TransactionalProducer

bootstrap, topic, where, after = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
replay.LETTERS_AT_A_TIME = 10
calls = 0
original = getattr(TransactionalProducer, where)


def counted(self, *given, **named):
    global calls
    calls += 1
    if calls == after:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, *given, **named)


setattr(TransactionalProducer, where, counted)
replay.Replay(replay.Request(topic), ProducerSettings(bootstrap)).execute()
"""


@pytest.mark.slow
def test_a_replay_killed_before_a_commit_or_between_records_resumes_and_sends_each_once(
    helper: Headrace,
    settings: ProducerSettings,
    source: str,
    topic: str,
    letters: DeadLetterWriter,
    tmp_path: Path,
) -> None:
    wanted = [b"%d" % at for at in range(60)]
    set_aside(letters, tmp_path, 0, *(Bad(source, 0, at, v) for at, v in enumerate(wanted)))
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    for where, after in (("commit", 2), ("produce", 14)):
        done = subprocess.run(
            [sys.executable, str(script), helper.bootstrap_servers, topic, where, str(after)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
    outcome = run(settings, topic)
    assert (outcome.done_before, outcome.total) == (20, 40)
    assert values(sent(helper, source, 60)) == wanted
