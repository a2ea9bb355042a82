"""The directory: groups are listed by state and type, and described."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_groups import ListedGroup
from support.groups.classic_groups import GROUP
from support.groups.group_offsets import OffsetsDriver


def listed(
    driver: OffsetsDriver, states: list[str] | None = None, types: list[str] | None = None
) -> list[str]:
    groups = driver.shard.listing.list(states or [], types or [], driver.now_ms)
    return sorted(group.group_id for group in groups)


@pytest.fixture
def driver() -> OffsetsDriver:
    """One group with a member and one that only has offsets."""
    driver = OffsetsDriver()
    driver.form(1)
    driver.commit({("t", 0): 5}, group_id="simple")
    return driver


def test_a_group_is_listed_with_its_protocol_type_state_and_type(driver: OffsetsDriver) -> None:
    groups = driver.shard.listing.list([], [], driver.now_ms)
    assert sorted(groups, key=lambda group: group.group_id) == [
        ListedGroup(
            group_id=GROUP, protocol_type="consumer", group_state="Stable", group_type="classic"
        ),
        ListedGroup(group_id="simple", protocol_type="", group_state="Empty", group_type="classic"),
    ]


def test_groups_are_filtered_by_state_whatever_its_case(driver: OffsetsDriver) -> None:
    assert listed(driver, states=["stable"]) == [GROUP]
    assert listed(driver, states=[" EMPTY ", "dead"]) == ["simple"]
    assert listed(driver, states=["Empty", "Stable"]) == [GROUP, "simple"]
    assert listed(driver, states=["Nonsense"]) == []


def test_groups_are_filtered_by_type_whatever_its_case(driver: OffsetsDriver) -> None:
    assert listed(driver, types=["Classic"]) == [GROUP, "simple"]
    assert listed(driver, types=["consumer", "share"]) == []
    assert listed(driver, types=["nonsense"]) == []
    assert listed(driver, states=["Empty"], types=["classic"]) == ["simple"]


def test_a_classic_group_is_described(driver: OffsetsDriver) -> None:
    group = driver.shard.listing.describe(GROUP)
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert member.member_assignment == member.member_id.encode()


def test_a_group_that_does_not_exist_is_not_described(driver: OffsetsDriver) -> None:
    with pytest.raises(CoordinatorError) as refused:
        driver.shard.listing.describe("nobody")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.value.message == "Group nobody not found."
