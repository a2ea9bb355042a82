"""Who may write to a partition: the first task that asks, and no other.

All tasks of a batch write as one producer, so brokers cannot tell two attempts of a task apart: the
second would be taken for the first, or mix with it. An attempt therefore claims its partitions, by
files that can be made only once, before it writes. Spark may start a task again for many reasons
(a lost worker, a stage that is repeated, speculation), and does not always say so; the claim does
not depend on it. A batch whose claims collide is given up and run again under a new epoch.
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
    """The claims of one transaction. Picklable: a folder that the driver and the workers share."""

    folder: str

    @classmethod
    def fresh(cls, checkpoint: Path, name: str) -> "PartitionLocks":
        """An empty folder; attempts that are left over from other transactions find none."""
        shutil.rmtree(checkpoint / CLAIMS, ignore_errors=True)
        folder = checkpoint / CLAIMS / name
        folder.mkdir(parents=True)
        return cls(str(folder))

    def take(self, partition: int) -> None:
        """Raises `TriedAgain`, or what an earlier attempt has failed with."""
        path = Path(self.folder) / str(partition)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            name, _, message = path.read_text(encoding="utf-8").partition(": ")
            if name:
                raise failure_named(name, message) from None
            raise TriedAgain(
                f"partition {partition} was begun by an attempt that is gone; the batch is run "
                "again from its start"
            ) from None
        except FileNotFoundError:
            raise SinkError(
                f"{self.folder} is not there: the checkpoint directory must be one that Spark's "
                "workers share with the driver, under the same path"
            ) from None

    def failed(self, partitions: set[int], error: ProducerFailed) -> None:
        """Leaves word for the attempts that Spark may make, which cannot know why this one fell."""
        for partition in partitions:
            path = Path(self.folder) / str(partition)
            path.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
