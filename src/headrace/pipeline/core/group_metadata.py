"""The metadata of a flow's committed group offsets: it marks the group as a pipeline's. Pure.

Any tool that lists groups can find the pipelines of a cluster by it, with the last batch and the
version of the table that contains it: `headrace.pipeline batch=12 version=34`.
"""

from typing import Final, NamedTuple

MARK: Final = "headrace.pipeline"
MAX_VERSION_CHARS: Final = 200
"""Brokers limit the metadata of an offset to 4,096 bytes (offset.metadata.max.bytes)."""


class Progress(NamedTuple):
    """The last batch of a flow, and the version of the table that contains it."""

    batch_id: int
    version: str


def progress_metadata(batch_id: int, version: str) -> str:
    """The metadata of a commit."""
    return f"{MARK} batch={batch_id} version={version[:MAX_VERSION_CHARS]}"


def progress_of(metadata: str) -> Progress | None:
    """The progress in a commit's metadata; None if no pipeline has written it."""
    mark, _, rest = metadata.partition(" batch=")
    number, _, version = rest.partition(" version=")
    if mark != MARK or not number.isdecimal():
        return None
    return Progress(int(number), version)
