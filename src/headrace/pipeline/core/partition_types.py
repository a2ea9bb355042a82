"""The column types by which a table can be partitioned. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_UNUSABLE_TYPES: Final = re.compile(
    r"half|float|double|(large_)?(binary|list)|array|map|struct|variant"
)
_DECIMAL: Final = re.compile(r"decimal\d*\(\d+, ?(?P<scale>-?\d+)\)")


def problems(
    columns: Mapping[str, str], partition_by: Sequence[str], kind: str
) -> Iterator[tuple[int, str]]:
    """The reasons why a table of format `kind` cannot be partitioned by these columns.

    `columns` maps names to types, as Spark or Arrow writes them. Columns of `partition_by` that are
    not in `columns` are not checked.
    """
    for at, name in enumerate(partition_by):
        reason = unusable(columns.get(name, ""), delta=kind == "delta")
        if reason:
            yield at, f"a table cannot be partitioned by {name}: {reason}"
    if partition_by and kind != "iceberg" and set(columns) <= set(partition_by):
        # Data files leave out the partition columns, and a file without columns has no rows.
        yield 0, "a table needs a column that is not in partition_by: remove one of them"


def unusable(kind: str, *, delta: bool) -> str:
    """Why a table cannot be partitioned by a column of type `kind`; "" if it can.

    `kind` is a type as Spark or Arrow writes it. `delta`: whether it is a Delta table.
    """
    if _UNUSABLE_TYPES.match(kind):
        return (
            f"a column of type {kind} cannot be a partition column. Use another column, or convert "
            "it to a date, a whole number or a string in the transform"
        )
    decimal = _DECIMAL.match(kind)
    if delta and decimal and int(decimal["scale"]) > 0:
        # When deltalake merges or compacts, it writes -1.50 as -1.-50 into the Delta log. No reader
        # can open the table afterwards.
        return (
            f"deltalake corrupts negative values of type {kind}. Convert it to a string or a whole "
            "number in the transform, or remove it from partition_by"
        )
    return ""
