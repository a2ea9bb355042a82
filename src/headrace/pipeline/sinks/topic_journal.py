"""A journal of commits to a topic, in the checkpoint directory, for when the marker has expired.

Brokers delete a group's offsets some days after its last commit (`offsets.retention.minutes`), and
the marker with them. A pipeline that is stopped for longer would write a batch twice. So the
journal records each transaction before it begins and again after it was committed. If a run ended
in between and the marker has expired, the topic decides: the journal has the producer id and the
topic's end offsets, and after these are the transaction's records and its commit or abort marker.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import offsets_from_json, offsets_to_json
from headrace.pipeline.sinks.table_sink import CommittedBatch, SinkError


class WriteIntent(NamedTuple):
    """A transaction that is about to begin."""

    batch: CommittedBatch
    """The batch that it commits if it succeeds."""
    producer_id: int
    starts: Mapping[TopicPartition, int]
    """The end offsets of the partitions that it may write to."""


class JournalEntry(NamedTuple):
    """The content of the journal."""

    done: CommittedBatch | None = None
    intended: WriteIntent | None = None

    @property
    def undecided(self) -> WriteIntent | None:
        """A transaction that was begun, with unknown outcome."""
        last = self.done.batch_id if self.done is not None else -1
        intended = self.intended
        return intended if intended is not None and intended.batch.batch_id > last else None


def resolve_last_commit(
    marker: CommittedBatch | None, known: JournalEntry, was_committed: Callable[[WriteIntent], bool]
) -> CommittedBatch | None:
    """The last commit, according to the group's marker and the journal; raises `SinkError`."""
    done = known.done
    if marker is not None:
        if done is not None and marker.batch_id < done.batch_id:
            raise SinkError(
                f"the topic's marker is at batch {marker.batch_id}, but batch {done.batch_id} was "
                "committed: the cluster has lost data or was replaced. Restore it, or run "
                "`headrace pipeline reset` to write everything again"
            )
        return marker
    undecided = known.undecided
    if undecided is not None and was_committed(undecided):
        return undecided.batch
    return done


class TopicJournal:
    """One file. A write is atomic and durable when it returns."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> JournalEntry:
        """Raises `SinkError` for a damaged file."""
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
            done, intended = found["done"], found["intended"]
            return JournalEntry(
                None if done is None else _committed(done),
                None if intended is None else _intent(intended),
            )
        except FileNotFoundError:
            return JournalEntry()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SinkError(
                f"cannot read {self._file}: {error}. Restore it from a backup"
            ) from None

    def intend(self, intent: WriteIntent) -> None:
        self._write(self.read()._replace(intended=intent))

    def record(self, done: CommittedBatch) -> None:
        self._write(JournalEntry(done))

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)

    def _write(self, entry: JournalEntry) -> None:
        done, intended = entry
        content = {
            "done": None if done is None else _plain(done),
            "intended": None
            if intended is None
            else {
                "batch": _plain(intended.batch),
                "producer_id": intended.producer_id,
                "starts": json.loads(offsets_to_json(intended.starts)),
            },
        }
        folder = self._file.parent
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{self._file.name}.part"
        with part.open("w", encoding="utf-8") as out:
            json.dump(content, out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(self._file)
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _plain(batch: CommittedBatch) -> dict[str, object]:
    offsets = json.loads(offsets_to_json(batch.offsets))
    return {"batch": batch.batch_id, "offsets": offsets, "version": batch.version}


def _committed(found: Mapping[str, Any]) -> CommittedBatch:
    offsets = offsets_from_json(json.dumps(found["offsets"]))
    return CommittedBatch(int(found["batch"]), offsets, str(found["version"]))


def _intent(found: Mapping[str, Any]) -> WriteIntent:
    starts = offsets_from_json(json.dumps(found["starts"]))
    return WriteIntent(_committed(found["batch"]), int(found["producer_id"]), starts)
