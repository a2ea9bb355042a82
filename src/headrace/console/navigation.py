"""The order of the screens in the navigation. Pure."""

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """One link of the navigation; `screen` is the name of its screen."""

    screen: str
    title: str
    path: str
    icon: str
    """The id of a symbol in static/icons.svg."""


class Group(NamedTuple):
    """Links under one heading."""

    title: str
    entries: tuple[Entry, ...]


NAVIGATION: Final = (
    Group(
        "Cluster",
        (
            Entry("overview", "Overview", "/", "gauge"),
            Entry("brokers", "Brokers and disks", "/brokers", "server"),
            Entry("reassignments", "Reassignment", "/reassignments", "move"),
        ),
    ),
    Group(
        "Data",
        (
            Entry("topics", "Topics", "/topics", "layers"),
            Entry("dead_letters", "Dead letters", "/dead-letters", "alert"),
            Entry("pipelines", "Pipelines", "/pipelines", "flow"),
        ),
    ),
    Group(
        "Consumers",
        (
            Entry("groups", "Groups", "/groups", "users"),
            Entry("share_groups", "Share groups", "/share-groups", "share"),
            Entry("transactions", "Transactions", "/transactions", "swap"),
        ),
    ),
    Group(
        "Access",
        (
            Entry("users", "Users", "/users", "key"),
            Entry("acls", "ACLs", "/acls", "shield"),
            Entry("quotas", "Quotas", "/quotas", "meter"),
        ),
    ),
)


def shown(screens: frozenset[str]) -> tuple[Group, ...]:
    """The navigation with the entries whose screens exist."""
    groups = (
        group._replace(entries=tuple(each for each in group.entries if each.screen in screens))
        for group in NAVIGATION
    )
    return tuple(group for group in groups if group.entries)
