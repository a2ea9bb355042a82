"""`mapInArrow` for columns of any name: PySpark parses dots and backticks in names as syntax."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.sinks.table_sink import TaskWriter

_SYNTAX: Final = (".", "`")


def map_in_arrow(rows: "DataFrame", task: "TaskWriter", ddl: str) -> "DataFrame":
    """Runs the task on the rows; it sees the columns under their own names."""
    names = tuple(rows.columns)
    if not any(sign in name for name in names for sign in _SYNTAX):
        return rows.mapInArrow(task, ddl)
    numbered = rows.toDF(*(f"c{at}" for at in range(len(names))))
    return numbered.mapInArrow(_Named(names, task), ddl)


@dataclass(frozen=True)
class _Named:
    """Picklable: restores the names of the columns."""

    names: tuple[str, ...]
    task: "TaskWriter"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(batch.rename_columns(list(self.names)) for batch in batches)
