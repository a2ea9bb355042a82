"""Each record of a topic becomes a row or a dead letter, or stops the run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.runner.events import EventKind
from headrace.testing import Broker
from support.pipelines.delta_pipeline import Pipeline
from support.pipelines.poison import letters_of, make
from support.storage import damage
from support.storage.damage import Damage
from support.wire.batches import batch, produce
from support.wire.connection import Wire
from support.wire.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

DAMAGED: dict[int, Damage] = {
    1: damage.flipped_bit,
    3: damage.endless_varint,
    4: damage.wrong_count,
    5: damage.negative_count,
    6: damage.negative_length,
    7: damage.no_such_codec,
    9: damage.garbage_gzip,
    10: damage.garbage_zstd,
    11: damage.negative_last_offset,
    13: damage.huge_last_offset,
}
BATCHES = 15
"""Of two records each: batch n holds the offsets 2n and 2n + 1."""


class Log:
    """A topic `t` whose only segment can be damaged while the broker serves it."""

    def __init__(self, broker: Broker, data: Path) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.file = data / "t-0" / f"{0:020}.log"

    def fill(self, *values: bytes | None) -> None:
        """One batch."""
        with Wire(self.bootstrap) as wire:
            assert produce(wire, "t", batch(*values)).error_code == 0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    data = tmp_path / "data"
    with Broker(data=data) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "t", 1)
        yield Log(broker, data)


@pytest.fixture
def pipeline(log: Log, tmp_path: Path, spark: "SparkSession") -> Iterator[Callable[..., Pipeline]]:
    made: list[Pipeline] = []

    def build(**changes: object) -> Pipeline:
        made.append(make(tmp_path / f"p{len(made)}", log.bootstrap, spark, "t", **changes))
        return made[-1]

    yield build
    for each in made:
        each.close()


def order(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


def test_damaged_batches_stop_the_run_or_are_dead_lettered_with_their_offsets(
    log: Log, pipeline: Callable[..., Pipeline]
) -> None:
    for number in range(BATCHES):
        log.fill(order(2 * number), order(2 * number + 1))
    damage.damage(log.file, DAMAGED)

    strict = pipeline()
    (failed,) = strict.run()
    assert "t-0: the batch at offset 2 is damaged (batch at byte" in str(failed)
    assert "on_corrupt: skip" in str(failed)
    assert [event.kind for event in strict.events if event.kind is EventKind.RETRY] == []
    assert not strict.table.exists() or strict.rows() == []

    lenient = pipeline(source={"on_corrupt": "skip"})
    assert lenient.run() == []
    good = [n for n in range(BATCHES) if n not in DAMAGED]
    assert lenient.places() == [(0, 2 * n + i) for n in good for i in (0, 1)]
    (event,) = lenient.batches()
    assert event.bad == {"DamagedBatch": len(DAMAGED)}
    found = letters_of(log.bootstrap, lenient.dead_letters)
    assert [each.offset for each in found] == [2 * n for n in sorted(DAMAGED)]
    for each in found:
        assert each.error == "DamagedBatch"
        assert f"offsets {each.offset} to {each.offset + 1} cannot be read" in each.message
        assert order(each.offset + 1)[3:] in (each.value or b"")  # its raw bytes
    told = [event.message for event in lenient.events if event.kind is EventKind.WARNING]
    assert sum("cannot be read" in each for each in told) == len(DAMAGED)


@pytest.mark.parametrize("wrong", [damage.foreign_base_offset, damage.no_magic])
def test_bytes_that_are_not_a_batch_always_stop_the_run(
    log: Log, pipeline: Callable[..., Pipeline], wrong: Damage
) -> None:
    """The start of the next batch is unknown: skipping would leave a gap of unknown length."""
    for number in range(3):
        log.fill(order(number))
    damage.damage(log.file, {1: wrong})
    (failed,) = pipeline(source={"on_corrupt": "skip"}).run()
    assert "t-0: what follows offset 1 is damaged" in str(failed)
    assert "headrace pipeline reset SPEC --to OFFSET" in str(failed)
