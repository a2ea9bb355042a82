"""The share group assignor assigns every partition, evenly and to few members."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinator.group.modern.assignor_spec import GroupSpec, MemberSpec
from headrace.coordinator.group.share.simple_assignor import simple_assignor

TOPICS = [bytes([number]) * 16 for number in range(4)]


@st.composite
def groups(draw: st.DrawFn) -> tuple[GroupSpec, dict[bytes, frozenset[int]]]:
    counts = {topic: draw(st.integers(1, 6)) for topic in TOPICS}
    same = draw(st.booleans())
    subset = st.frozensets(st.sampled_from(TOPICS), min_size=0 if not same else 1)
    common = draw(subset)
    members = {}
    for number in range(draw(st.integers(1, 8))):
        wanted = common if same else draw(subset)
        assigned = {
            topic: draw(st.frozensets(st.integers(0, 7), min_size=1, max_size=4))
            for topic in draw(st.frozensets(st.sampled_from(TOPICS), max_size=2))
        }
        members[f"m{number}"] = MemberSpec(wanted, assigned)
    asked = frozenset().union(*(one.topics for one in members.values()))
    assignable = {topic: draw(st.frozensets(st.integers(0, counts[topic] - 1))) for topic in TOPICS}
    return GroupSpec(members, {topic: counts[topic] for topic in asked}), assignable


@settings(max_examples=100, deadline=None)
@given(groups())
def test_every_subscribed_partition_with_state_is_assigned(
    case: tuple[GroupSpec, dict[bytes, frozenset[int]]],
) -> None:
    group, assignable = case
    result = simple_assignor(group, assignable)
    given_out: dict[tuple[bytes, int], int] = {}
    for member_id, assignment in result.items():
        for topic, numbers in assignment.items():
            assert topic in group.members[member_id].topics
            assert numbers <= assignable[topic]
            for number in numbers:
                given_out[topic, number] = given_out.get((topic, number), 0) + 1
    wanted = {
        (topic, number)
        for spec in group.members.values()
        for topic in spec.topics
        for number in assignable[topic]
    }
    assert set(given_out) == wanted


@settings(max_examples=100, deadline=None)
@given(groups())
def test_equal_members_get_equal_shares_and_keep_their_partitions(
    case: tuple[GroupSpec, dict[bytes, frozenset[int]]],
) -> None:
    group, assignable = case
    if not group.homogeneous:
        return
    result = simple_assignor(group, assignable)
    sizes = [sum(map(len, assignment.values())) for assignment in result.values()]
    assert max(sizes) - min(sizes) <= 1
    settled = GroupSpec(
        {id_: one._replace(assigned=result[id_]) for id_, one in group.members.items()},
        group.partitions,
    )
    assert simple_assignor(settled, assignable) == result
