"""What `headrace share describe` prints: facts for programs, tables for people."""

from collections.abc import Mapping
from typing import Final

from headrace.cli.output import Block, Fields, Table, counted
from headrace.client.admin.groups import GroupDescription
from headrace.client.admin.share_locks import ShareLock, ShareLocks
from headrace.client.admin.shares import SharePosition
from headrace.client.results import TopicPartition

Positions = Mapping[TopicPartition, SharePosition]
Facts = dict[str, object]

NOT_TOLD: Final = (
    "Which records are locked is unknown: no leader has answered, or the cluster is Apache Kafka, "
    "which does not tell."
)


def group_facts(group: GroupDescription, positions: Positions) -> Facts:
    return {
        "group": group.group_id,
        "state": group.state,
        "epoch": group.epoch,
        "assignor": group.assignor or None,
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [str(each) for each in member.partitions],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "start_offset": known_or_none(position.start_offset),
                "lag": known_or_none(position.lag),
                "lag_seconds": _lag_seconds(position),
                **_lock_facts(position.locks),
            }
            for each, position in sorted(positions.items())
        ],
    }


def _lock_facts(found: ShareLocks | None) -> Facts:
    """What is unknown is null."""
    if found is None:
        return {"locked": None, "locks": None, "omitted_locks": None, "in_flight": None}
    unheld = found.unheld
    return {
        "locked": found.acquired,
        "locks": [
            {
                "first_offset": lock.first,
                "last_offset": lock.last,
                "member": lock.member,
                "deliveries": lock.deliveries,
                "expires_seconds": _expires_s(lock),
            }
            for lock in found.locks
        ],
        "omitted_locks": found.omitted,
        "in_flight": None if unheld is None else {"locked": found.acquired, **unheld._asdict()},
    }


def group_blocks(group: GroupDescription, positions: Positions) -> list[Block]:
    blocks: list[Block] = [
        Fields(
            [
                ("GROUP", group.group_id),
                ("STATE", group.state),
                ("EPOCH", group.epoch),
                ("MEMBERS", len(group.members)),
            ]
        )
    ]
    rows = [
        (
            *each,
            known_or_none(position.start_offset),
            known_or_none(position.lag),
            _lag_seconds(position),
            None if position.locks is None else position.locks.acquired,
        )
        for each, position in sorted(positions.items())
    ]
    if rows:
        blocks.append(Table(("TOPIC", "PARTITION", "START", "LAG", "LAG (S)", "LOCKED"), rows))
        blocks += _lock_blocks(positions)
    if group.members:
        members = [
            (member.member_id, member.client_id, member.host, [str(p) for p in member.partitions])
            for member in group.members
        ]
        blocks.append(Table(("MEMBER", "CLIENT", "HOST", "PARTITIONS"), members))
    return blocks


def _lock_blocks(positions: Positions) -> list[Block]:
    told = {each: at.locks for each, at in sorted(positions.items()) if at.locks is not None}
    if not told:
        return [NOT_TOLD]
    blocks: list[Block] = []
    rows = [
        (*each, lock.first, lock.last, lock.member, lock.deliveries, _expires_s(lock))
        for each, found in told.items()
        for lock in found.locks
    ]
    if rows:
        headers = ("TOPIC", "PARTITION", "FIRST", "LAST", "LOCKED BY", "DELIVERIES", "EXPIRES (S)")
        blocks.append(Table(headers, rows))
    omitted = sum(found.omitted for found in told.values())
    if omitted:
        blocks.append(f"{counted(omitted, 'more lock')} not shown.")
    return blocks


def known_or_none(number: int) -> int | None:
    return None if number < 0 else number


def _lag_seconds(position: SharePosition) -> float | None:
    return None if position.lag_ms < 0 else position.lag_ms / 1000


def _expires_s(lock: ShareLock) -> float | None:
    """None while an acknowledgement is being stored."""
    return None if lock.expires_ms is None else lock.expires_ms / 1000
