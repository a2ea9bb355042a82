"""`headrace share describe`: locks as text and as facts, and clusters that do not tell them."""

from headrace.cli.group.share_facts import NOT_TOLD, group_blocks, group_facts
from headrace.cli.output import text_of
from headrace.client.admin.groups import SHARE, GroupDescription
from headrace.client.admin.share_locks import ShareLock, ShareLocks, UnheldRecords
from headrace.client.admin.shares import SharePosition
from headrace.client.results import TopicPartition

GROUP = GroupDescription("jobs", SHARE, "Stable", "simple", 3, ())
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
LOCKS = ShareLocks(
    3,
    (ShareLock(4, 5, "ann", 2, 1500), ShareLock(7, 7, "bob", 1, None)),
    6,
    UnheldRecords(1, 2, 3, 4),
)
TOLD = {
    SECOND: SharePosition(-1, -1, -1, ShareLocks(0, (), 0, None)),
    FIRST: SharePosition(4, 9, 500, LOCKS),
}


def text(positions: dict[TopicPartition, SharePosition]) -> list[list[str]]:
    lines = "".join(text_of(block) for block in group_blocks(GROUP, positions)).splitlines()
    return [line.split() for line in lines]


def test_every_lock_has_a_line_and_the_omitted_ones_are_counted() -> None:
    shown = text(TOLD)
    assert ["t", "0", "4", "9", "0.5", "3"] in shown
    assert ["t", "1", "-", "-", "-", "0"] in shown
    assert ["t", "0", "4", "5", "ann", "2", "1.5"] in shown
    assert ["t", "0", "7", "7", "bob", "1", "-"] in shown
    assert shown[-1] == ["6", "more", "locks", "not", "shown."]


def test_a_group_without_locks_has_no_table_of_them() -> None:
    assert not any("LOCKED BY" in " ".join(line) for line in text({SECOND: TOLD[SECOND]}))


def test_a_cluster_that_does_not_tell_locks_gets_one_sentence() -> None:
    """Apache Kafka ignores the question; no number is invented."""
    positions = {FIRST: SharePosition(4, 9)}
    shown = text(positions)
    assert ["t", "0", "4", "9", "-", "-"] in shown
    assert shown[-1] == NOT_TOLD.split()
    (facts,) = group_facts(GROUP, positions)["partitions"]  # type: ignore[misc]
    assert [facts[name] for name in ("locked", "locks", "omitted_locks", "in_flight")] == [None] * 4


def test_the_facts_have_the_locks_and_the_totals() -> None:
    facts, loading = group_facts(GROUP, TOLD)["partitions"]  # type: ignore[misc]
    assert (facts["locked"], facts["omitted_locks"]) == (3, 6)
    assert facts["locks"] == [
        {"first_offset": 4, "last_offset": 5, "member": "ann", "deliveries": 2,
         "expires_seconds": 1.5},
        {"first_offset": 7, "last_offset": 7, "member": "bob", "deliveries": 1,
         "expires_seconds": None},
    ]  # fmt: skip
    assert facts["in_flight"] == {
        "locked": 3, "available": 1, "acknowledged": 2, "archiving": 3, "archived": 4,
    }  # fmt: skip
    assert (loading["locked"], loading["locks"], loading["in_flight"]) == (0, [], None)
