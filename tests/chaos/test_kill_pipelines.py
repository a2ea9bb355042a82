"""kill -9 of a pipeline's driver and of its broker: the sinks hold exactly the sent records.

Five flows run in one driver: a topic into Delta, Iceberg, Parquet and another topic, and files into
a topic. A producer feeds them meanwhile, in every codec, with bad records and aborted transactions.
The first kill is at the two points that matter most: some flows have committed their dead letters
and not their table, the others their table and not their offsets. The second swaps the points.
Further kills are at random moments, while the broker is killed too.

HEADRACE_PIPELINE_KILLS sets how often (30 for a full run),
HEADRACE_PIPELINE_SEED which moments, HEADRACE_PIPELINE_FLOWS which flows (all of them, if not set),
HEADRACE_PIPELINE_MASTER which Spark, a Connect server for one, where the jobs of a driver that was
killed go on for a while.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place

from support.brokers.processes import BrokerProcess
from support.pipelines.driver import SHORT_LIVED, Driver, Started
from support.pipelines.feed import ABORTED, BAD, GOOD, Feed, FileFeed
from support.pipelines.outputs import (
    Letter,
    Row,
    all_parquet_rows,
    committed,
    delta_rows,
    iceberg_rows,
    json_values,
    letters,
    line_letters,
    parquet_rows,
)
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic

KILLS = int(os.environ.get("HEADRACE_PIPELINE_KILLS", "1"))
SEED = int(os.environ.get("HEADRACE_PIPELINE_SEED", str(random.randrange(2**32))))
FLOWS = os.environ.get("HEADRACE_PIPELINE_FLOWS", "delta,iceberg,parquet,topic,files").split(",")
MASTER = os.environ.get("HEADRACE_PIPELINE_MASTER", "local[2]")
EXACT_POINTS = ("before-table", "after-table")
EXACT_KILLS = len(EXACT_POINTS)
RECORDS_PER_ROUND = 900
RECORDS_PER_BATCH = 450
FILES_PER_ROUND = 4
PARTITIONS = 3
MAX_BATCHES = 2 * len(FLOWS)
"""A random kill waits for at most this number; a round feeds every flow with two or more."""
MAX_DELAY_S = 1.5
STRAGGLERS_S = 120
SECONDS_PER_KILL = 600

SOURCE, ASIDE, OUT, LINES, BAD_LINES = "source", "aside", "out", "lines", "bad-lines"
PIPELINE = "chaos"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800 + KILLS * SECONDS_PER_KILL),
    pytest.mark.skipif(
        bool(os.environ.get("HEADRACE_TEST_BOOTSTRAP")), reason="needs a broker that it may kill"
    ),
]


class Chaos:
    """The broker, the feeds and the drivers of one test."""

    def __init__(self, home: Path, broker: BrokerProcess) -> None:
        self.home = home
        self.broker = broker
        self.random = random.Random(SEED)
        self.told: list[str] = []
        self.spark: set[Started] = set()
        self.files = FileFeed(home / "incoming")
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, SOURCE, PARTITIONS)
            create_topic(wire, OUT, 2)
            create_topic(wire, LINES, 2)
        self.feed = Feed(broker.bootstrap_servers, SOURCE, PARTITIONS, SEED)
        self.spec = home / "spec.yaml"
        self.spec.write_text(json.dumps(self._spec()))  # JSON is YAML
        self._drivers: list[Driver] = []

    def _spec(self) -> dict[str, Any]:
        return {
            "pipeline": PIPELINE,
            "trigger": "100ms",
            "checkpoint": str(self.home / "checkpoint"),
            "spark": {
                "spark.master": MASTER,
                "spark.sql.shuffle.partitions": "2",
                **(SHORT_LIVED if MASTER.startswith("local") else {}),
            },
            "flows": [self._flow(name) for name in FLOWS],
        }

    def _flow(self, name: str) -> dict[str, Any]:
        if name == "files":
            return {
                "name": name,
                "source": {
                    "files": str(self.home / "incoming"),
                    "format": "json",
                    "schema": "id BIGINT",
                    "max_files_per_batch": 2,
                },
                "sink": {"format": "topic", "topic": LINES, "key": ["id"]},
                "dead_letter": {"topic": BAD_LINES},
            }
        sinks = {
            "delta": {"format": "delta", "table": str(self.home / "delta")},
            "iceberg": {
                "format": "iceberg",
                "table": "lake.orders",
                "warehouse": str(self.home / "warehouse"),
                "partition_by": ["p"],
            },
            "parquet": {"format": "parquet", "table": str(self.home / "parquet")},
            "topic": {"format": "topic", "topic": OUT, "key": ["id"]},
        }
        columns = "id, amount, _record.partition AS p, _record.offset AS o"
        return {
            "name": name,
            "source": {
                "topics": [SOURCE],
                "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
                "max_records_per_batch": RECORDS_PER_BATCH,
            },
            "transform": [{"sql": f"SELECT {columns} FROM source"}],
            "expect": [{"name": "positive", "sql": "amount >= 0", "on_fail": "dead_letter"}],
            "sink": sinks[name],
            "dead_letter": {"topic": ASIDE},
        }

    def feed_a_round(self) -> None:
        self.feed.allow(RECORDS_PER_ROUND)
        self.files.add(FILES_PER_ROUND)

    def driver(self, *options: str, killed_at: Mapping[str, str] | None = None) -> Driver:
        started = Driver(
            self.spec,
            self.broker.bootstrap_servers,
            self.home / "drivers" / str(len(self._drivers)),
            options=options,
            killed_at=killed_at,
        )
        self._drivers.append(started)
        return started

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()
        if self.feed.is_alive():
            self.feed.finish()

    def note(self, what: str) -> None:
        self.told.append(what)
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)

    # --- kills ----------------------------------------------------------------------------------

    def kill_at_exact_points(self, number: int) -> None:
        """Kills the driver when each flow is at its point; neighbouring flows have other points."""
        first = SEED + number
        points = {
            f"{PIPELINE}.{name}": EXACT_POINTS[(first + index) % len(EXACT_POINTS)]
            for index, name in enumerate(FLOWS)
        }
        driver = self.driver(killed_at=points)
        status = driver.wait()
        assert status == -9, f"{self.story()}\n{driver.tail()}"
        self.note(f"killed at {points}")

    def kill_sometime(self) -> None:
        """At a random moment, with the broker killed before, after, meanwhile, or not at all."""
        broker = self.random.choice(["stays", "restarts", "comes late", "dies too", "dies after"])
        if broker == "restarts":
            self.restart_broker()
        if broker == "comes late":
            self.broker.kill()
        driver = self.driver()
        moment, wait = self._moment(driver)
        if broker == "comes late":
            driver.await_events("started", 1)
            time.sleep(self.random.random() * MAX_DELAY_S)  # the random moment, not a wait
            self.broker.start()
        if broker == "dies after":
            driver.await_events("batch", 1)
            self.restart_broker()
        wait()
        delay = self.random.random() * MAX_DELAY_S
        time.sleep(delay)  # the random moment, not a wait
        tree = self.random.random() < 0.3
        self.spark.update(driver.spark_processes())
        if broker == "dies too":
            self.broker.kill()
        batches = driver.count("batch")
        assert driver.running, f"{self.story()}\n{driver.tail()}"
        driver.kill(tree=tree)
        if broker == "dies too":
            self.broker.start()
        what = "all of Spark" if tree else "the driver"
        self.note(f"killed {what} {delay:.2f} s after {moment}, {batches} batches; broker {broker}")

    def _moment(self, driver: Driver) -> tuple[str, Callable[[], None]]:
        batches = self.random.randint(0, MAX_BATCHES)
        if not batches:
            return "the start", lambda: driver.await_events("started", len(FLOWS))
        if self.random.random() < 0.5:
            return f"batch {batches}", lambda: driver.await_events("batch", batches)
        folder = self._trace(self.random.choice(FLOWS))
        before = _names(folder)

        def changed() -> bool:
            assert driver.running, driver.tail()
            return bool(_names(folder) - before) or driver.count("batch") >= MAX_BATCHES

        what = f"a change in {folder.relative_to(self.home)}"
        return what, lambda: _await(changed, driver)

    def _trace(self, flow: str) -> Path:
        """The folder that shows the progress of a batch."""
        checkpoint, delta, parquet = (self.home / at for at in ("checkpoint", "delta", "parquet"))
        traces = {
            "delta": [checkpoint / "delta" / "staging", delta, delta / "_delta_log"],
            "iceberg": [self.home / "warehouse" / "lake" / "orders" / "metadata"],
            "parquet": [checkpoint / "parquet" / "staging", parquet, parquet / "_headrace"],
            "topic": [checkpoint / "topic" / "staging", checkpoint / "topic" / "outbox"],
            "files": [checkpoint / "files" / "inflow", checkpoint / "files" / "outbox"],
        }
        return self.random.choice(traces[flow])

    def restart_broker(self) -> None:
        self.broker.kill()
        time.sleep(self.random.random())  # the random moment, not a wait
        self.broker.start()

    def story(self) -> str:
        return f"seed {SEED}; " + "; ".join(self.told)


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


def _await(condition: Callable[[], bool], driver: Driver) -> None:
    wait_for(condition, f"a batch leaves traces\n{driver.tail()}", deadline_s=SECONDS_PER_KILL)


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    with BrokerProcess(tmp_path / "broker") as broker:
        made = Chaos(tmp_path, broker)
        made.feed.start()
        yield made
        made.close()


def test_written_rows_equal_sent_records_after_any_kill(chaos: Chaos) -> None:
    for number in range(KILLS):
        chaos.feed_a_round()
        if number < EXACT_KILLS:
            chaos.kill_at_exact_points(number)
        else:
            chaos.kill_sometime()
    _check_that_sigterm_finishes_the_batch(chaos)
    chaos.feed.finish()
    last = chaos.driver("--until-caught-up")
    assert last.wait() == 0, f"{chaos.story()}\n{last.tail()}"
    _check(chaos)
    wait_for(
        lambda: not any(each.is_there for each in chaos.spark),
        "Spark's processes end with their driver",
        deadline_s=STRAGGLERS_S,
    )


def _check_that_sigterm_finishes_the_batch(chaos: Chaos) -> None:
    chaos.feed_a_round()
    driver = chaos.driver()
    driver.await_events("batch", 1)
    assert driver.terminate() == 0, f"{chaos.story()}\n{driver.tail()}"
    assert driver.count("stopped") == len(FLOWS)
    assert not driver.count("failed")


# --- expected results ----------------------------------------------------------------------------


def _check(chaos: Chaos) -> None:
    bootstrap, story = chaos.broker.bootstrap_servers, chaos.story()
    sent = committed(bootstrap, SOURCE)
    _check_source(chaos, sent)
    good = sorted(_row(message) for message in sent if message.key() == GOOD)
    for name, rows in _outputs(chaos).items():
        found = sorted((row["p"], row["o"], row["id"], row["amount"]) for row in rows)
        assert found == good, f"{name}: {_difference(good, found)}; {story}"
    flows = [f"{PIPELINE}.{name}" for name in FLOWS if name != "files"]
    wanted = sorted(
        Letter(flow, _number(message.partition()), _number(message.offset()), message.value())
        for flow in flows
        for message in sent
        if message.key() == BAD
    )
    if flows:
        found_letters = letters(bootstrap, ASIDE)
        assert found_letters == wanted, f"{_difference(wanted, found_letters)}; {story}"
    for flow in flows:
        _check_group(bootstrap, flow)
    if "files" in FLOWS:
        numbers = sorted(row["id"] for row in json_values(bootstrap, LINES))
        lines = list(range(chaos.files.lines))
        assert numbers == lines, f"files: {_difference(lines, numbers)}; {story}"
        found_lines, bad_lines = line_letters(bootstrap, BAD_LINES), sorted(chaos.files.bad)
        assert found_lines == bad_lines, f"{_difference(bad_lines, found_lines)}; {story}"
    print(
        f"exact: {len(good)} rows, {len(wanted)} dead letters, {chaos.files.lines} lines, "
        f"{len(chaos.files.bad)} bad ones; {story}"
    )


def _check_source(chaos: Chaos, sent: Sequence[Message]) -> None:
    """Checks the feed: acknowledged records are in the topic, aborted ones are not."""
    assert not [message for message in sent if message.key() == ABORTED], chaos.story()
    ids = Counter(json.loads(each.value() or b"")["id"] for each in sent if each.key() == GOOD)
    assert max(ids.values()) == 1, chaos.story()
    assert sum(each.key() == BAD for each in sent) > 0


def _outputs(chaos: Chaos) -> dict[str, list[Row]]:
    bootstrap, home = chaos.broker.bootstrap_servers, chaos.home
    readers: dict[str, Callable[[], list[Row]]] = {
        "delta": lambda: delta_rows(home / "delta"),
        "iceberg": lambda: iceberg_rows(home / "warehouse", "lake.orders"),
        "parquet": lambda: parquet_rows(home / "parquet"),
        "topic": lambda: json_values(bootstrap, OUT),
    }
    found = {name: readers[name]() for name in FLOWS if name in readers}
    if "parquet" in FLOWS:
        found["parquet, read without manifests"] = all_parquet_rows(home / "parquet")
    return found


def _row(message: Message) -> tuple[int, int, int, float]:
    value = json.loads(message.value() or b"")
    place = _number(message.partition()), _number(message.offset())
    return (*place, value["id"], value["amount"])


def _number(value: int | None) -> int:
    assert value is not None
    return value


def _check_group(bootstrap: str, group: str) -> None:
    """The offsets that every Kafka tool shows are the log's end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    places = [Place(SOURCE, partition) for partition in range(PARTITIONS)]
    try:
        offsets = [each.offset for each in consumer.committed(places, timeout=60)]
        ends = [consumer.get_watermark_offsets(each, timeout=60)[1] for each in places]
    finally:
        consumer.close()
    assert offsets == ends, group


def _difference(wanted: Sequence[Any], found: Sequence[Any]) -> str:
    missing, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    return (
        f"{missing.total()} of {len(wanted)} are missing {list(missing)[:3]}, "
        f"{more.total()} are too many {list(more)[:3]}"
    )
