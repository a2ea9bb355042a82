"""Dead letters (KIP-1191): copies of records that a share group will not deliver again."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.records.record import Headers, Record, build_batch
from headrace.share.record_state import RejectedRecord

REJECTED: Final = "Offset rejected by client."
DELIVERIES_USED_UP: Final = "Offset delivery count exceeded the threshold."
RESERVED_PREFIX: Final = "__"

_TOPIC: Final = "__dlq.errors.topic"
_PARTITION: Final = "__dlq.errors.partition"
_OFFSET: Final = "__dlq.errors.offset"
_GROUP: Final = "__dlq.errors.group"
_BATCH_OVERHEAD_BYTES: Final = 61
_RECORD_OVERHEAD_BYTES: Final = 64  # an upper bound for lengths, deltas and counts


class RecordOrigin(NamedTuple):
    """The share partition that dead letters come from."""

    group_id: str
    topic: str
    partition: int


class Original(NamedTuple):
    """The key and value that a dead letter copies from its record."""

    key: bytes | None
    value: bytes | None


def headers(origin: RecordOrigin, offset: int, letter: RejectedRecord) -> Headers:
    """Kafka's names; every value is text."""
    return (
        (_TOPIC, origin.topic.encode()),
        (_PARTITION, str(origin.partition).encode()),
        (_OFFSET, str(offset).encode()),
        (_GROUP, origin.group_id.encode()),
        ("__dlq.errors.delivery.count", str(letter.deliveries).encode()),
        ("__dlq.errors.message", (REJECTED if letter.rejected else DELIVERIES_USED_UP).encode()),
    )


def source_offset(found: Headers, origin: RecordOrigin) -> int | None:
    """The offset in the origin that a dead letter belongs to; None if it is from another origin."""
    said = dict(found)
    named = (said.get(_GROUP), said.get(_TOPIC), said.get(_PARTITION))
    if named != tuple(str(each).encode() for each in origin):
        return None
    offset = said.get(_OFFSET) or b""
    return int(offset) if offset.isdigit() else None


def first_batch(
    origin: RecordOrigin,
    letter: RejectedRecord,
    originals: Mapping[int, Original],
    *,
    now_ms: int,
    max_bytes: int,
) -> tuple[int, bytes]:
    """Encodes dead letters, as many as fit in `max_bytes` but at least one; also returns the last
    offset.

    If a record is too large for a batch, its dead letter has only headers, which give its offset.
    If some originals are given, the dead letters end with them: the others have not been read yet.
    """
    last = max(originals, default=letter.last)
    records: list[Record] = []
    size = _BATCH_OVERHEAD_BYTES
    for offset in range(letter.first, max(letter.first, last) + 1):
        key, value = originals.get(offset, Original(None, None))
        head = headers(origin, offset, letter)
        needed = _size(key, value, head)
        if needed + _BATCH_OVERHEAD_BYTES > max_bytes:
            key = value = None
            needed = _size(key, value, head)
        if records and size + needed > max_bytes:
            break
        records.append(Record(len(records), now_ms, key, value, head))
        size += needed
    return letter.first + len(records) - 1, build_batch(records)


def _size(key: bytes | None, value: bytes | None, head: Headers) -> int:
    data = len(key or b"") + len(value or b"")
    return _RECORD_OVERHEAD_BYTES + data + sum(len(n) + len(v or b"") + 10 for n, v in head)


def topic_problem(name: str, prefix: str, *, exists: bool, enabled: bool) -> str | None:
    """The reason why a topic cannot be the dead-letter topic, as a sentence for the operator."""
    if name.startswith(RESERVED_PREFIX):
        return f"dead-letter topic {name}: names that begin with __ are reserved"
    if prefix and not name.startswith(prefix):
        return (
            f"dead-letter topic {name}: its name must begin with {prefix} "
            "(errors.deadletterqueue.topic.name.prefix)"
        )
    if exists and not enabled:
        return f"dead-letter topic {name}: set errors.deadletterqueue.group.enable=true on it"
    return None
