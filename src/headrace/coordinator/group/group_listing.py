"""Lists and deletes a shard's groups of every kind, and describes classic groups."""

from collections.abc import Collection, Mapping

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.description import describe_group
from headrace.coordinator.group.group import Group
from headrace.coordinator.group.offsets.offset_state import OffsetState
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_groups import DescribeGroupsDescribedGroup
from headrace.protocol.messages.list_groups import ListedGroup


class GroupListing:
    """Reads `groups`; a deletion writes tombstones like any other change."""

    def __init__(self, groups: Mapping[str, Group], offsets: OffsetState) -> None:
        self._groups = groups
        self._offsets = offsets

    def list(
        self, states: Collection[str], types: Collection[str], now_ms: int
    ) -> list[ListedGroup]:
        """Groups in one of the states and of one of the types. An empty filter matches every group,
        an unknown name none. Case does not matter."""
        wanted_states = {state.lower().strip() for state in states}
        wanted_types = {type_.lower() for type_ in types}
        listed = []
        for group in self._groups.values():
            if wanted_types and group.kind not in wanted_types:
                continue
            state = group.state_name(now_ms)
            if wanted_states and state.lower() not in wanted_states:
                continue
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=state,
                    group_type=group.kind,
                )
            )
        return listed

    def describe(self, group_id: str) -> DescribeGroupsDescribedGroup:
        """Describes a classic group; raises `CoordinatorError` for a group of another kind."""
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            problem = "not found" if group is None else "is not a classic group"
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")
        return describe_group(group)

    def delete(self, group_id: str) -> CoordinatorResult[None]:
        """Deletes a group without members, and its offsets. Raises `CoordinatorError`."""
        group = self._groups.get(group_id)
        if group is None:
            raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group.check_delete()
        return CoordinatorResult(
            None,
            changes=[*self._offsets.tombstones(group_id), *group.tombstones()],
            timers=group.timers(),
        )
