"""Judges a history. Pure: the same history has the same verdict.

The names and categories are those that are usual for Kafka. A `bad` anomaly violates a guarantee. A
`normal` anomaly occurs in Kafka too, by design, and is counted to show that its absence is not
guaranteed: transactions have no order among each other (G0), others write in between
(int-send-skip), a group's member starts again from the last commit (poll-skip, nonmonotonic-poll),
and a leader that does not know yet that it was replaced may report its end offset (stale-look).
"""

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.history import NO_OFFSET, Found, History, Poll, Send

BAD = (
    "lost-write",
    "unseen",
    "duplicate",
    "inconsistent-offsets",
    "reordered",
    "nonmonotonic-send",
    "aborted-read",
    "precommitted-read",
    "torn-transaction",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "poll-skip",
    "nonmonotonic-poll",
    "replicas-differ",
)
NORMAL = (
    "G0",
    "int-send-skip",
    "stale-look",
    "poll-skip-subscribed",
    "nonmonotonic-poll-subscribed",
)
MAX_EXAMPLES = 10


@dataclass(slots=True)
class Verdict:
    """`invalid` says why a run proves nothing; such a run has not passed."""

    bad: dict[str, list[str]] = field(default_factory=dict)
    normal: dict[str, int] = field(default_factory=dict)
    invalid: str = ""

    @property
    def passed(self) -> bool:
        return not self.invalid and not self.bad


def check(history: History, *, replicas_differ: Sequence[str] = ()) -> Verdict:
    found: list[tuple[str, str]] = [("replicas-differ", each) for each in replicas_differ]
    log = _Log(history)
    for rule in (
        _missing,
        _repeated,
        _sends_out_of_order,
        _transactions,
        _reads_of_transactions,
        _polls,
        _looks,
        _write_cycles,
    ):
        found.extend(rule(log))
    verdict = Verdict(invalid=_invalid(history))
    for name, example in found:
        if name in NORMAL:
            verdict.normal[name] = verdict.normal.get(name, 0) + 1
        else:
            assert name in BAD
            verdict.bad.setdefault(name, []).append(example)
    return verdict


def _invalid(history: History) -> str:
    if not any(send.outcome == "ok" for send in history.sends):
        return "nothing was acknowledged"
    if not history.faults:
        return "nothing went wrong: no fault"
    if not any(poll.records for poll in history.polls):
        return "nothing was read while faults went on"
    return ""


class _Log:
    """The history in the forms that the rules need."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.outcome_of = {each.name: each.outcome for each in history.transactions}
        self.transaction = {each.name: each for each in history.transactions}
        self.send_of = {send.value: send for send in history.sends}
        self.final_values = {
            record.value for records in history.final.values() for record in records
        }
        self.visible: Mapping[int, list[int]] = {
            partition: sorted({record.offset for record in records})
            for partition, records in history.final.items()
        }

    def reads(self) -> Iterator[Found]:
        for poll in self.history.polls:
            yield from poll.records
        for records in self.history.final.values():
            yield from records

    def promised(self, send: Send) -> bool:
        """Whether readers must find the record."""
        if send.outcome != "ok":
            return False
        return not send.transaction or self.outcome_of.get(send.transaction) == "committed"

    def between(self, partition: int, left: int, right: int) -> int:
        """How many visible records are strictly between two offsets."""
        offsets = self.visible.get(partition, [])
        return max(0, bisect_left(offsets, right) - bisect_right(offsets, left))


Anomalies = Iterator[tuple[str, str]]


def _missing(log: _Log) -> Anomalies:
    """Acknowledged but not found: lost if readers passed its offset, otherwise not seen yet."""
    for send in log.history.sends:
        if not log.promised(send) or send.value in log.final_values:
            continue
        offsets = log.visible.get(send.partition, [])
        passed = bool(offsets) and send.offset != NO_OFFSET and offsets[-1] > send.offset
        name = "lost-write" if log.history.complete or passed else "unseen"
        yield name, f"{send.value} at {send.partition}/{send.offset}"


def _repeated(log: _Log) -> Anomalies:
    """One value at two offsets, or two values at one offset."""
    places: dict[str, set[tuple[int, int]]] = defaultdict(set)
    values: dict[tuple[int, int], set[str]] = defaultdict(set)
    for record in log.reads():
        places[record.value].add((record.partition, record.offset))
        values[record.partition, record.offset].add(record.value)
    for send in log.history.sends:
        if send.outcome == "ok" and send.offset != NO_OFFSET:
            values[send.partition, send.offset].add(send.value)
    for value, where in places.items():
        if len(where) > 1:
            yield "duplicate", f"{value} at {sorted(where)}"
    for place, said in values.items():
        if len(said) > 1:
            yield "inconsistent-offsets", f"{place} holds {sorted(said)}"


def _sends_out_of_order(log: _Log) -> Anomalies:
    """Finds records of a producer that are not in the order of its sends."""
    lines: dict[tuple[str, int], list[Send]] = defaultdict(list)
    for send in log.history.sends:
        if send.outcome == "ok" and send.offset != NO_OFFSET:
            lines[send.client, send.partition].append(send)
    for sends in lines.values():
        sends.sort(key=lambda send: send.order)
        highest: Send | None = None
        for send in sends:
            if highest is not None and send.offset < highest.offset:
                example = f"{send.value} at {send.offset} after {highest.value} at {highest.offset}"
                if highest.completed < send.invoked:
                    yield "nonmonotonic-send", example
                elif highest.producer == send.producer:
                    yield "reordered", example
            if highest is None or send.offset > highest.offset:
                highest = send


def _transactions(log: _Log) -> Anomalies:
    """Finds transactions with only some of their records, and other writes between them."""
    members: dict[str, list[Send]] = defaultdict(list)
    for send in log.history.sends:
        if send.transaction and send.outcome == "ok":
            members[send.transaction].append(send)
    for name, sends in members.items():
        seen = [send for send in sends if send.value in log.final_values]
        whole = len(seen) in (0, len(sends))
        if not whole and log.history.complete and log.outcome_of.get(name) != "committed":
            yield "torn-transaction", f"{name}: {len(seen)} of {len(sends)} records"
        by_partition: dict[int, list[int]] = defaultdict(list)
        for send in seen:
            by_partition[send.partition].append(send.offset)
        for partition, offsets in by_partition.items():
            offsets.sort()
            for left, right in itertools.pairwise(offsets):
                if log.between(partition, left, right):
                    yield "int-send-skip", name


def _reads_of_transactions(log: _Log) -> Anomalies:
    """Finds aborted records, and records read before their commit was requested."""
    for record in dict.fromkeys(log.reads()):
        send = log.send_of.get(record.value)
        if send is not None and log.outcome_of.get(send.transaction) == "aborted":
            yield "aborted-read", f"{record.value} of {send.transaction}"
    for poll in log.history.polls:
        for record in poll.records:
            send = log.send_of.get(record.value)
            transaction = log.transaction.get(send.transaction) if send else None
            if transaction is not None and poll.ended < transaction.end_invoked:
                yield "precommitted-read", f"{record.value} of {transaction.name}"


def _polls(log: _Log) -> Anomalies:
    """Finds records that a reader missed, repeated or got out of order, in and between polls."""
    last: dict[tuple[str, int, int], int] = {}
    for poll in sorted(log.history.polls, key=lambda poll: poll.began):
        here: dict[int, int] = {}
        for record in poll.records:
            line = (poll.client, poll.assignment, record.partition)
            if record.partition in here:
                yield from _step(log, record, here[record.partition], "int-", "")
            elif line in last:
                suffix = "-subscribed" if poll.subscribed else ""
                yield from _step(log, record, last[line], "", suffix, poll)
            here[record.partition] = last[line] = record.offset


def _step(
    log: _Log, record: Found, before: int, prefix: str, suffix: str, poll: Poll | None = None
) -> Anomalies:
    who = f" by {poll.client}" if poll else ""
    example = f"{record.partition}: {before} then {record.offset}{who}"
    if record.offset <= before:
        yield f"{prefix}nonmonotonic-poll{suffix}", example
    elif log.between(record.partition, before, record.offset):
        yield f"{prefix}poll-skip{suffix}", example


def _looks(log: _Log) -> Anomalies:
    """Finds end offsets below a record that was acknowledged before the query."""
    acked: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for send in sorted(log.history.sends, key=lambda send: send.completed):
        if send.outcome == "ok" and send.offset != NO_OFFSET:
            line = acked[send.partition]
            line.append((send.completed, max(send.offset, line[-1][1] if line else 0)))
    for look in log.history.looks:
        line = acked[look.partition]
        count = bisect_left(line, (look.began, NO_OFFSET))
        if count and line[count - 1][1] >= look.end_offset:
            yield "stale-look", f"{look.partition} ends at {look.end_offset}"


def _write_cycles(log: _Log) -> Anomalies:
    """Finds pairs of transactions that two partitions have in different orders."""
    offsets: dict[str, dict[int, int]] = defaultdict(dict)
    lines: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for partition, records in log.history.final.items():
        for record in records:
            send = log.send_of.get(record.value)
            if send is not None and send.transaction:
                offsets[send.transaction].setdefault(partition, record.offset)
                lines[partition].append((record.offset, send.transaction))
    cycles = set()
    for partition, line in lines.items():
        line.sort()
        for (_, first), (_, second) in itertools.pairwise(line):
            for other in offsets[first].keys() & offsets[second].keys() - {partition}:
                if first != second and offsets[first][other] > offsets[second][other]:
                    cycles.add(frozenset((first, second)))
    for cycle in cycles:
        yield "G0", " and ".join(sorted(cycle))
