"""Groups of every kind are found by words, kind and state; an idle group is no error."""

from headrace.console.cluster.snapshot import GroupState
from headrace.console.screens.group_list import kind_of, level_of, select_groups, sorted_groups

GROUPS = [
    GroupState("billing-eu", "classic", "Stable", "consumer", 1, 5),
    GroupState("billing-us", "consumer", "Empty", "consumer", 2, 90),
    GroupState("jobs", "share", "Stable", "share", 1),
    GroupState("old", "", "", "consumer", 1, 7),
]


def ids(groups: list[GroupState]) -> list[str]:
    return [group.id for group in groups]


def test_every_word_of_the_search_must_be_in_the_name() -> None:
    assert ids(select_groups(GROUPS, search="US bill", kind="", state="")) == ["billing-us"]
    assert ids(select_groups(GROUPS, search="", kind="share", state="stable")) == ["jobs"]


def test_a_group_without_a_listed_kind_is_of_unknown_kind() -> None:
    assert kind_of(GROUPS[3]) == "unknown"
    assert ids(select_groups(GROUPS, search="", kind="unknown", state="")) == ["old"]


def test_an_unknown_lag_sorts_below_every_known_one() -> None:
    found = sorted_groups(GROUPS, "lag", descending=True)
    assert ids(found) == ["billing-us", "old", "billing-eu", "jobs"]


def test_only_a_dead_group_is_critical() -> None:
    levels = [level_of(state) for state in ("Stable", "Empty", "Assigning", "Dead", "")]
    assert levels == ["ok", "", "warning", "critical", ""]
