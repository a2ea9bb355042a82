"""The metadata log returns the changes since a version, or None if it does not reach back to it."""

from headrace.cluster.metadata_log import MetadataChange, MetadataLog
from headrace.cluster.metadata_record_format import decode
from headrace.cluster.metadata_records import BrokerFenced, MetadataRecord


def change(before: int, after: int, *ids: int) -> MetadataChange:
    records: list[MetadataRecord] = [BrokerFenced(id_) for id_ in ids]
    return MetadataChange(before, after, records)


def test_changes_since_a_version_are_in_order() -> None:
    journal = MetadataLog(version=10)
    for version in (10, 11, 12):
        journal.add(change(version, version + 1, version))
    found = journal.since(11)
    assert found is not None
    assert [each.after for each in found] == [12, 13]
    assert journal.since(13) == []


def test_an_unknown_version_has_no_changes() -> None:
    journal = MetadataLog(version=10)
    journal.add(change(10, 20, 1))
    journal.add(change(20, 21, 2))
    assert journal.since(9) is None
    assert journal.since(15) is None
    assert journal.since(22) is None


def test_a_gap_drops_the_earlier_changes() -> None:
    journal = MetadataLog(version=10)
    journal.add(change(10, 11, 1))
    journal.add(change(40, 41, 2))
    assert journal.since(10) is None
    assert journal.since(40) is not None


def test_the_oldest_changes_are_dropped_beyond_the_limit() -> None:
    journal = MetadataLog(version=0, max_records=3)
    for version in range(5):
        journal.add(change(version, version + 1, version))
    assert journal.since(1) is None
    assert len(journal.since(2) or []) == 3


def test_a_change_is_encoded_once() -> None:
    one = change(0, 1, 7)
    assert one.encoded is one.encoded
    assert [decode(each) for each in one.encoded] == list(one.records)
