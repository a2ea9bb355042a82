"""A file's statistics in Delta's form, from the statistics of the Parquet file."""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow.parquet as pq

MAX_TEXT_CHARS: Final = 32  # longer texts have no bounds: a truncated bound must be rounded


def delta_stats(metadata: pq.FileMetaData, rows: int) -> str:
    """Row count, smallest, largest and missing values of the plain columns, as JSON."""
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    missing: dict[str, int] = {}
    without_bounds: set[str] = set()
    for group_at in range(metadata.num_row_groups):
        group = metadata.row_group(group_at)
        for at in range(group.num_columns):
            column = group.column(at)
            name = column.path_in_schema
            if "." in name:
                continue  # inside a struct or a list
            found = column.statistics
            if found is None or not found.has_null_count:
                without_bounds.add(name)
                continue
            missing[name] = missing.get(name, 0) + found.null_count
            if not found.has_min_max:
                if found.num_values:
                    without_bounds.add(name)
                continue
            try:
                low, high = _bound(found.min), _bound(found.max)
            except (OverflowError, ValueError):  # a year beyond 9999
                low = high = None
            if low is None or high is None:
                without_bounds.add(name)
                continue
            smallest[name] = min(smallest.get(name, low), low)
            largest[name] = max(largest.get(name, high), high)
    for name in without_bounds:
        smallest.pop(name, None)
        largest.pop(name, None)
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": smallest,
            "maxValues": largest,
            "nullCount": missing,
        }
    )


def _bound(value: object) -> object:
    """A value that JSON and Delta can hold; None for any other."""
    if isinstance(value, bool | bytes | Decimal):
        return None
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds") if not value.microsecond % 1000 else None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT_CHARS else None
    return value if isinstance(value, int) else None
