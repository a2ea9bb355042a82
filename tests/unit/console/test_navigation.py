"""The navigation shows the screens that exist, in its order."""

from headrace.console.navigation import NAVIGATION, shown
from headrace.console.screens.registry import SCREENS


def test_only_existing_screens_have_a_link() -> None:
    groups = shown(frozenset({"topics", "users"}))
    assert [entry.screen for group in groups for entry in group.entries] == ["topics", "users"]


def test_each_link_leads_to_a_route_of_its_screen() -> None:
    paths = {action.path: screen.name for screen in SCREENS for action in screen.actions}
    names = {screen.name for screen in SCREENS}
    for group in NAVIGATION:
        for entry in group.entries:
            if entry.screen in names:
                assert paths[entry.path] == entry.screen
