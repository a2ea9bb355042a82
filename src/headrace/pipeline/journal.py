"""What a topic sink has committed, in the checkpoint directory, for when the marker has expired.

Brokers forget a group's offsets some days after its last commit (`offsets.retention.minutes`). A
pipeline that rests for longer would begin anew and write everything twice. So the last commit is
kept here as well, and before each batch the intent to write it: if the marker is gone and it is
unclear whether the intended batch was committed, the pipeline stops and says so.
"""

import json
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from headrace.pipeline.offsets import offsets_from_json, offsets_to_json
from headrace.pipeline.sinks.table import Committed, SinkError

FILE: Final = "commits.json"
SHORTEST_RETENTION_S: Final = 86_400.0
"""A marker that was written is surely there for so long."""


class Journal(NamedTuple):
    """What is known beside the marker."""

    done: Committed | None = None
    intended: int | None = None
    intended_at_s: float = 0.0


def settled(marker: Committed | None, journal: Journal, now_s: float) -> Committed | None:
    """The last commit, by what the cluster and the directory say; raises `SinkError`. Pure."""
    done = journal.done
    if marker is not None:
        if done is not None and marker.batch_id < done.batch_id:
            raise SinkError(
                f"the topic's marker is at batch {marker.batch_id}, but batch {done.batch_id} was "
                "committed: the cluster has lost data or was replaced. Restore it, or run "
                "`headrace pipeline reset` to write everything anew"
            )
        return marker
    unclear = journal.intended is not None and (done is None or journal.intended > done.batch_id)
    if unclear and now_s - journal.intended_at_s > SHORTEST_RETENTION_S:
        raise SinkError(
            f"batch {journal.intended} was begun and its marker is not there: it was not "
            "committed, or it was and the broker has forgotten (offsets.retention.minutes). Look "
            "whether its records are in the topic; then run `headrace pipeline reset`, or restore "
            "the group's offsets"
        )
    return done


def read_journal(folder: Path) -> Journal:
    """Raises `SinkError` for a damaged file."""
    file = folder / FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        done = found["done"]
        return Journal(
            None
            if done is None
            else Committed(
                int(done["batch"]), offsets_from_json(json.dumps(done["offsets"])), done["version"]
            ),
            found["intended"],
            float(found["intended_at_s"]),
        )
    except FileNotFoundError:
        return Journal()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SinkError(f"{file} cannot be read: {error}. Restore it") from None


def write_journal(folder: Path, journal: Journal) -> None:
    """All or nothing, and durable."""
    done = journal.done
    content = {
        "done": None
        if done is None
        else {
            "batch": done.batch_id,
            "offsets": json.loads(offsets_to_json(done.offsets)),
            "version": done.version,
        },
        "intended": journal.intended,
        "intended_at_s": journal.intended_at_s,
    }
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{FILE}.part"
    with part.open("w", encoding="utf-8") as out:
        json.dump(content, out)
        out.flush()
        os.fsync(out.fileno())
    part.replace(folder / FILE)


def intend(folder: Path, batch_id: int) -> None:
    journal = read_journal(folder)
    write_journal(folder, journal._replace(intended=batch_id, intended_at_s=time.time()))


def record(folder: Path, done: Committed) -> None:
    write_journal(folder, read_journal(folder)._replace(done=done))
