"""The range of times that a table may contain, as SQL."""

from typing import Final

YEARS: Final = {
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ),
}
"""The first and the last time that most readers of tables support, including Python's."""
