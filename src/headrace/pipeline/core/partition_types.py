"""Which types of columns a table can be partitioned by. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_NO_VALUES: Final = re.compile(r"half|float|double|(large_)?(binary|list)|array|map|struct|variant")
_DECIMAL: Final = re.compile(r"decimal\d*\(\d+, ?(?P<scale>-?\d+)\)")


def problems(
    columns: Mapping[str, str], partition_by: Sequence[str], kind: str
) -> Iterator[tuple[int, str]]:
    """What is wrong with the columns that a table of that kind is to be partitioned by.

    `columns` are the types by name, as Spark or as Arrow writes them; others are passed over.
    """
    for at, name in enumerate(partition_by):
        reason = unusable(columns.get(name, ""), delta=kind == "delta")
        if reason:
            yield at, f"no table is partitioned by {name}: {reason}"
    if partition_by and kind != "iceberg" and set(columns) <= set(partition_by):
        # Their files have only the others, and one without columns has no rows.
        yield 0, "a table needs a column that it is not partitioned by: leave one out"


def unusable(kind: str, *, delta: bool) -> str:
    """Why no table, or no Delta table, can be partitioned by a column; "" if it can.

    The type is written as Spark or as Arrow does it.
    """
    if _NO_VALUES.match(kind):
        return (
            f"a column of type {kind} makes no partitions. Take another one, or make a date, a "
            "whole number or a text of it in the transform"
        )
    decimal = _DECIMAL.match(kind)
    if delta and decimal and int(decimal["scale"]) > 0:
        # When it merges or compacts, it writes -1.50 as -1.-50 into the log, and it reads it so,
        # too: nobody can open the table then.
        return (
            f"deltalake spoils negative values of type {kind}. Make a text or a whole number of it "
            "in the transform, or leave it out of partition_by"
        )
    return ""
