"""Locks that let only the first task attempt write to a partition.

All tasks of a batch write as one producer, so brokers cannot distinguish two attempts of a task:
their records would mix. Before it writes, an attempt therefore locks its partitions with files that
can be created only once. Spark may repeat a task for many reasons (a lost worker, a repeated stage,
speculation) and does not always report it; the lock does not depend on that. A batch whose locks
collide is aborted and runs again under a new epoch.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.pipeline.producer.errors import ProducerFailed, TriedAgain, failure_named
from headrace.pipeline.sinks.table_sink import SinkError

CLAIMS: Final = "claims"


@dataclass(frozen=True)
class PartitionLocks:
    """The locks of one transaction, in a directory that driver and workers share. Picklable."""

    folder: str

    @classmethod
    def create(cls, checkpoint: Path, name: str) -> "PartitionLocks":
        """A new directory. Attempts of earlier transactions find theirs deleted."""
        shutil.rmtree(checkpoint / CLAIMS, ignore_errors=True)
        folder = checkpoint / CLAIMS / name
        folder.mkdir(parents=True)
        return cls(str(folder))

    def lock(self, partition: int) -> None:
        """Locks the partition; raises `TriedAgain`, or the error of an earlier attempt."""
        path = Path(self.folder) / str(partition)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            name, _, message = path.read_text(encoding="utf-8").partition(": ")
            if name:
                raise failure_named(name, message) from None
            raise TriedAgain(
                f"an earlier attempt has written to partition {partition}; the batch runs again "
                "from its start"
            ) from None
        except FileNotFoundError:
            raise SinkError(
                f"{self.folder} does not exist: Spark's workers and the driver must share the "
                "checkpoint directory under the same path"
            ) from None

    def record_failure(self, partitions: set[int], error: ProducerFailed) -> None:
        """Stores the error for later attempts of the task, which would otherwise not know it."""
        for partition in partitions:
            path = Path(self.folder) / str(partition)
            path.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
