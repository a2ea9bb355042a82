"""The marker of a transaction: the batch id, stored as metadata of a group's offsets. Pure.

Offsets and batch id become visible together with the transaction's records, so after any crash
they say which batch the topic holds.
"""

import json
from collections.abc import Mapping

from headrace.client.admin import offsets as client_offsets
from headrace.client.results import TopicPartition
from headrace.pipeline.sinks.table_sink import CommittedBatch


class BadMarker(Exception):
    """A group's offsets were not written by a pipeline."""


def marker_of(batch_id: int) -> str:
    return json.dumps({"batch": batch_id})


def batch_of(group: str, metadata: str) -> int:
    """The batch that a marker names; raises `BadMarker`."""
    try:
        return int(json.loads(metadata)["batch"])
    except (ValueError, KeyError, TypeError):
        raise BadMarker(
            f"the offsets of group {group} carry {metadata!r} instead of a batch of a pipeline: "
            "another client has committed them. Delete the group's offsets only if the pipeline "
            "has not written anything yet; otherwise give the pipeline another name"
        ) from None


def last_marked(
    group: str, positions: Mapping[TopicPartition, client_offsets.CommittedOffset]
) -> CommittedBatch | None:
    """The last batch and its end offsets, without partitions that it did not have."""
    batches = {each: batch_of(group, at.metadata) for each, at in positions.items()}
    if not batches:
        return None
    last = max(batches.values())
    offsets = {each: positions[each].offset for each, batch in batches.items() if batch == last}
    return CommittedBatch(last, offsets, f"{group}@{last}")
