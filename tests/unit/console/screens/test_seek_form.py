"""The form of a move: its goal, its partitions, and the offsets that the preview carries."""

import pytest

from headrace.client.results import TopicPartition
from headrace.console.screens.seek_form import (
    SeekForm,
    from_text,
    goal_of,
    partitions_of,
    time_ms,
    to_text,
)
from headrace.console.web.errors import PageError
from headrace.operations.group_moves import Goal, Target
from headrace.operations.positions import AtOffset, FromBeginning, FromEnd, LastRecords, SinceTime

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPICS = {"t": [0, 1], "u": [0, 1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("form", "goal"),
    [
        (SeekForm("earliest"), Goal(place=FromBeginning())),
        (SeekForm("latest"), Goal(place=FromEnd())),
        (SeekForm("offset", offset="12"), Goal(place=AtOffset(12))),
        (SeekForm("last", last="3"), Goal(place=LastRecords(3))),
        (SeekForm("shift", shift="-5"), Goal(shift=-5)),
        (SeekForm("time", time="1970-01-01T00:00:01Z"), Goal(place=SinceTime(1000))),
    ],
)
def test_each_choice_has_a_goal(form: SeekForm, goal: Goal) -> None:
    assert goal_of(form) == goal


@pytest.mark.parametrize(
    "form",
    [
        SeekForm(""),
        SeekForm("offset", offset=""),
        SeekForm("offset", offset="-1"),
        SeekForm("offset", offset="١"),
        SeekForm("offset", offset="9" * 30),
        SeekForm("last", last="0"),
        SeekForm("shift", shift="1.5"),
        SeekForm("time", time="yesterday"),
    ],
)
def test_a_field_that_cannot_be_used_is_refused(form: SeekForm) -> None:
    with pytest.raises(PageError, match="Nothing was changed"):
        goal_of(form)


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_ms("2026-01-31T12:00:00") == time_ms("2026-01-31T13:00:00+01:00")
    assert time_ms("1700000000000") == 1_700_000_000_000


def test_without_a_topic_all_partitions_of_the_group_move() -> None:
    assert partitions_of(SeekForm("earliest"), [P1, P0], TOPICS) == [P0, P1]


def test_partitions_are_numbers_and_ranges() -> None:
    chosen = partitions_of(SeekForm("earliest", topic="u", partitions="0,2-3"), [], TOPICS)
    assert [each.partition for each in chosen] == [0, 2, 3]


@pytest.mark.parametrize(
    ("topic", "partitions"),
    [("", ""), ("", "0"), ("none", ""), ("t", "2"), ("t", "1-0"), ("t", "x")],
)
def test_partitions_that_do_not_exist_are_refused(topic: str, partitions: str) -> None:
    with pytest.raises(PageError):
        partitions_of(SeekForm("earliest", topic=topic, partitions=partitions), [], TOPICS)


def test_the_preview_carries_the_limited_offsets() -> None:
    text = to_text({P1: Target(99, 0, 10), P0: Target(3, 0, 10)})
    assert from_text(text) == {P0: 3, P1: 10}


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[["t", "x", 1]]'])
def test_a_preview_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(PageError):
        from_text(text)
