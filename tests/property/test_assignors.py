"""Assignments are complete, respect subscriptions, are balanced and move little."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinator.group.consumer.assignors import ASSIGNORS
from headrace.coordinator.group.consumer.assignors.range import assign_ranges
from headrace.coordinator.group.consumer.assignors.uniform import assign_uniformly
from headrace.coordinator.group.modern.assignor_spec import Assignment, GroupSpec, MemberSpec

TOPICS = [bytes([number]) * 16 for number in range(6)]
EXAMPLES = settings(max_examples=100, deadline=None)


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool | None = None) -> GroupSpec:
    """Members with any subscriptions, and a last target that may be out of date."""
    partitions = {topic: draw(st.integers(1, 7)) for topic in TOPICS[: draw(st.integers(1, 5))]}
    ids = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    wanted = st.frozensets(st.sampled_from(sorted(partitions)))
    topics = draw(wanted)
    owned: dict[str, dict[bytes, set[int]]] = {id_: {} for id_ in ids}
    everything = [(topic, number) for topic in TOPICS for number in range(8)]
    for topic, number in draw(st.lists(st.sampled_from(everything), unique=True)):
        owned[draw(st.sampled_from(ids))].setdefault(topic, set()).add(number)
    members = {
        id_: MemberSpec(
            topics if same else draw(wanted),
            {topic: frozenset(numbers) for topic, numbers in owned[id_].items()},
            draw(st.none() | st.just(f"instance-{id_}")),
        )
        for id_ in ids
    }
    return GroupSpec(members, partitions)


def flat(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, number) for topic, numbers in assignment.items() for number in numbers}


def sizes(assignments: Mapping[str, Assignment]) -> dict[str, int]:
    return {id_: len(flat(assignment)) for id_, assignment in assignments.items()}


@pytest.mark.parametrize("name", ASSIGNORS)
@EXAMPLES
@given(group=groups())
def test_each_wanted_partition_goes_to_exactly_one_member_that_wants_it(
    name: str, group: GroupSpec
) -> None:
    assignments = ASSIGNORS[name](group)
    given_out = [
        (topic, number) for assignment in assignments.values() for topic, number in flat(assignment)
    ]
    wanted = {topic for spec in group.members.values() for topic in spec.topics}
    assert sorted(given_out) == [
        (topic, number) for topic in sorted(wanted) for number in range(group.partitions[topic])
    ]
    for id_, assignment in assignments.items():
        assert set(assignment) <= group.members[id_].topics
        assert all(assignment.values())


@EXAMPLES
@given(group=groups(homogeneous=True))
def test_uniform_gives_equal_shares_with_as_few_moves_as_possible(group: GroupSpec) -> None:
    assignments = assign_uniformly(group)
    counts = sorted(sizes(assignments).values())
    assert counts[-1] - counts[0] <= 1
    # At most each member's share can be kept, and one more for as many as have a larger share.
    share, larger = divmod(sum(counts), len(counts))
    possible = [
        sum(t in spec.topics and n < group.partitions[t] for t, n in flat(spec.assigned))
        for spec in group.members.values()
    ]
    most = sum(min(count, share) for count in possible)
    most += min(larger, sum(count > share for count in possible))
    kept = sum(
        len(flat(assignment) & flat(group.members[id_].assigned))
        for id_, assignment in assignments.items()
    )
    assert kept == most


@EXAMPLES
@given(group=groups(homogeneous=False))
def test_uniform_leaves_no_single_move_that_would_balance_better(group: GroupSpec) -> None:
    assignments = assign_uniformly(group)
    load = sizes(assignments)
    for owner, assignment in assignments.items():
        for topic in assignment:
            for id_, spec in group.members.items():
                if topic in spec.topics:
                    assert load[owner] - load.get(id_, 0) <= 1


@EXAMPLES
@given(group=groups())
def test_uniform_changes_nothing_when_it_runs_again(group: GroupSpec) -> None:
    first = assign_uniformly(group)
    again = assign_uniformly(
        group._replace(
            members={
                id_: spec._replace(assigned=first.get(id_, {}))
                for id_, spec in group.members.items()
            }
        )
    )
    assert again == first


@EXAMPLES
@given(group=groups())
def test_range_gives_each_subscriber_one_run_of_nearly_equal_length(group: GroupSpec) -> None:
    assignments = assign_ranges(group)
    for topic, count in group.partitions.items():
        subscribers = [id_ for id_, spec in group.members.items() if topic in spec.topics]
        lengths = []
        for id_ in subscribers:
            numbers = sorted(assignments[id_].get(topic, frozenset()))
            assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
            lengths.append(len(numbers))
        if subscribers:
            assert sum(lengths) == count
            assert max(lengths) - min(lengths) <= 1
