"""The DescribeGroups response for a classic group."""

from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsDescribedGroup,
)


def describe_group(group: ClassicGroup) -> DescribeGroupsDescribedGroup:
    """Only a stable group shows its protocol and the metadata of its members, as in Kafka: before
    that, the members have not agreed on a protocol."""
    stable = group.state is ClassicState.STABLE
    return DescribeGroupsDescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol or "" if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
