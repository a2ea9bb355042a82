"""The list of groups of all kinds: filtered and sorted. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headrace.console.cluster.snapshot import GroupState

KINDS: Final = ("classic", "consumer", "share", "streams")
UNKNOWN_KIND: Final = "unknown"
SORTS: Final[Mapping[str, Callable[[GroupState], object]]] = {
    "name": lambda group: group.id,
    "kind": lambda group: (kind_of(group), group.id),
    "state": lambda group: (group.state, group.id),
    "topics": lambda group: len(group.topics),
    "lag": lambda group: -1 if group.lag is None else group.lag,
    "coordinator": lambda group: group.coordinator,
}
_BUSY_STATES: Final = frozenset(
    {"preparingrebalance", "completingrebalance", "assigning", "reconciling", "notready"}
)


def kind_of(group: GroupState) -> str:
    """The kind as the cluster lists it. Brokers before Kafka 4.0 list no kind."""
    return group.kind or UNKNOWN_KIND


def level_of(state: str) -> str:
    """The badge's level for a state: a group without members is no error."""
    word = state.lower()
    if word == "stable":
        return "ok"
    if word in _BUSY_STATES:
        return "warning"
    return "critical" if word == "dead" else ""


def select_groups(
    groups: Iterable[GroupState], *, search: str, kind: str, state: str
) -> list[GroupState]:
    """The groups of this kind and state whose ids contain every word of the search."""
    words = search.lower().split()
    return [
        group
        for group in groups
        if all(word in group.id.lower() for word in words)
        and kind in ("", kind_of(group))
        and (not state or group.state.lower() == state.lower())
    ]


def sorted_groups(groups: Iterable[GroupState], sort: str, *, descending: bool) -> list[GroupState]:
    found = sorted(groups, key=lambda group: group.id)
    if sort == "name" and not descending:
        return found
    return sorted(found, key=SORTS[sort], reverse=descending)  # type: ignore[arg-type]  # comparable
