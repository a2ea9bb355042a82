"""A replica that leaves the ISR is logged with its lag; many are summarised."""

from logging import INFO, WARNING

from headrace.log_event import LogEvent
from headrace.replication.isr_events import IsrChange, ReplicaLag, isr_events


def shrunk(partition: int, replica: int = 3, records: int | None = 7) -> IsrChange:
    return IsrChange("orders", partition, replica, (1, 2), ReplicaLag(records, 31_000))


def test_a_shrink_has_the_lag_and_an_expansion_has_none() -> None:
    joined = IsrChange("orders", 1, 3, (1, 2, 3), None)
    assert list(isr_events([shrunk(0), joined])) == [
        LogEvent(
            WARNING,
            "the ISR shrank",
            {
                "topic": "orders",
                "partition": 0,
                "replica": 3,
                "isr": "1,2",
                "lag_records": 7,
                "behind_ms": 31_000,
            },
        ),
        LogEvent(
            INFO,
            "the ISR expanded",
            {"topic": "orders", "partition": 1, "replica": 3, "isr": "1,2,3"},
        ),
    ]


def test_many_shrinks_have_one_line_for_each_replica() -> None:
    changes = [shrunk(index, records=index) for index in range(8)]
    changes += [shrunk(index, replica=2, records=None) for index in range(2)]
    third, second = isr_events(changes)
    assert third.sentence == "the ISRs of many partitions shrank"
    assert third.fields == {
        "replica": 3,
        "partitions": 8,
        "max_lag_records": 7,
        "max_behind_ms": 31_000,
        "examples": "orders-0, orders-1, orders-2, orders-3, orders-4 and 3 more",
    }
    assert (second.fields["replica"], second.fields["max_lag_records"]) == (2, 0)


def test_many_expansions_have_one_line_for_each_replica() -> None:
    changes = [IsrChange("orders", index, 3, (1, 3), None) for index in range(5)]
    (line,) = isr_events(changes)
    assert (line.level, line.sentence) == (INFO, "the ISRs of many partitions expanded")
    assert line.fields["partitions"] == 5
