"""Runs of offsets, merged and split."""

from collections.abc import Iterable

from headrace.share.offset_spans import Span
from headrace.share.record_state import Acquired, StateBatch


def add_run(acquired: list[Acquired], span: Span) -> None:
    """Adds a run; extends the last one if they touch and have the same delivery count."""
    if acquired and acquired[-1].last + 1 == span.first:
        before = acquired[-1]
        if before.deliveries == span.deliveries:
            acquired[-1] = before._replace(last=span.last)
            return
    acquired.append(Acquired(span.first, span.last, span.deliveries))


def merged_state_batches(spans: Iterable[Span]) -> tuple[StateBatch, ...]:
    """The stored batches of the runs: neighbours with the same state and count are one batch."""
    batches: list[StateBatch] = []
    for span in spans:
        batch = StateBatch(span.first, span.last, span.next_state, span.deliveries)
        before = batches[-1] if batches else None
        if before and before.last + 1 == batch.first and before[2:] == batch[2:]:
            batches[-1] = before._replace(last=batch.last)
        else:
            batches.append(batch)
    return tuple(batches)


def subtract_range(first: int, last: int, from_: int, to: int) -> list[tuple[int, int]]:
    """`first` to `last` without `from_` to `to`."""
    parts = [(first, min(last, from_ - 1)), (max(first, to + 1), last)]
    return [(start, stop) for start, stop in parts if start <= stop]
