"""The journal answers what is new since a version, or that it does not know."""

from headrace.cluster.metadata_log import MetadataChange, MetadataLog
from headrace.cluster.record_format import decode
from headrace.cluster.records import BrokerFenced, MetadataRecord


def change(before: int, after: int, *ids: int) -> MetadataChange:
    records: list[MetadataRecord] = [BrokerFenced(id_) for id_ in ids]
    return MetadataChange(before, after, records)


def test_changes_since_a_version_come_in_their_order() -> None:
    journal = MetadataLog(version=10)
    for version in (10, 11, 12):
        journal.add(change(version, version + 1, version))
    found = journal.since(11)
    assert found is not None
    assert [each.after for each in found] == [12, 13]
    assert journal.since(13) == []


def test_a_version_that_was_never_heard_of_is_not_known() -> None:
    journal = MetadataLog(version=10)
    journal.add(change(10, 20, 1))
    journal.add(change(20, 21, 2))
    assert journal.since(9) is None
    assert journal.since(15) is None
    assert journal.since(22) is None


def test_a_gap_makes_what_was_before_it_useless() -> None:
    journal = MetadataLog(version=10)
    journal.add(change(10, 11, 1))
    journal.add(change(40, 41, 2))
    assert journal.since(10) is None
    assert journal.since(40) is not None


def test_old_changes_go_when_there_are_too_many() -> None:
    journal = MetadataLog(version=0, max_records=3)
    for version in range(5):
        journal.add(change(version, version + 1, version))
    assert journal.since(1) is None
    assert len(journal.since(2) or []) == 3


def test_a_change_is_encoded_once() -> None:
    one = change(0, 1, 7)
    assert one.encoded is one.encoded
    assert [decode(each) for each in one.encoded] == list(one.records)
