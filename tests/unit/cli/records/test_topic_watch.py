"""A topic that is deleted or created again during a run is noticed, once."""

from collections.abc import Callable, Mapping

import pytest

from headrace.cli.records import topic_watch
from headrace.cli.records.topic_watch import TopicChanges, TopicWatch
from headrace.client.errors import ConnectionLost
from headrace.client.metadata import TopicInfo

OLD, NEW, NONE = b"\1" * 16, b"\2" * 16, bytes(16)


def found(id_: bytes) -> dict[str, TopicInfo]:
    return {"t": TopicInfo("t", id_, False, {})}


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[TopicChanges]]:
    """The changes that a watch reports for a sequence of answers, without pauses between them."""
    monkeypatch.setattr(topic_watch, "CHECK_S", 0.0)

    def report(first: bytes, *answers: Mapping[str, TopicInfo]) -> list[TopicChanges]:
        left = iter(answers)
        watch = TopicWatch({"t": first}, lambda: next(left))
        return [watch.changes() for _ in answers]

    return report


def test_a_deletion_is_reported_once_and_the_new_topic_when_it_appears(
    changes: Callable[..., list[TopicChanges]],
) -> None:
    said = changes(OLD, found(OLD), {}, {}, found(NEW), found(NEW))
    assert [each.deleted for each in said] == [(), ("t",), (), (), ()]
    assert [len(each.recreated) for each in said] == [0, 0, 0, 1, 0]


def test_a_topic_that_was_recreated_between_two_checks_is_known_by_its_id(
    changes: Callable[..., list[TopicChanges]],
) -> None:
    said = changes(OLD, found(NEW), {}, found(OLD))
    assert [len(each.recreated) for each in said] == [1, 0, 1]
    assert said[1].deleted == ("t",)


def test_without_topic_ids_a_deletion_that_a_check_sees_is_noticed(
    changes: Callable[..., list[TopicChanges]],
) -> None:
    said = changes(NONE, found(NONE), {}, found(NONE), found(NONE))
    assert [each.deleted for each in said] == [(), ("t",), (), ()]
    assert [len(each.recreated) for each in said] == [0, 0, 1, 0]


def test_an_unreachable_cluster_is_not_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Mapping[str, TopicInfo]:
        raise ConnectionLost("gone")

    monkeypatch.setattr(topic_watch, "CHECK_S", 0.0)
    assert TopicWatch({"t": OLD}, fail).changes() == TopicChanges()
