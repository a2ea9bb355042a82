"""All screens. A new screen is added here, and to navigation.py if it has a link there."""

from typing import Final

from headrace.console.screens import (
    acls,
    brokers,
    dead_letters,
    groups,
    login,
    messages,
    overview,
    pipelines,
    produce,
    quotas,
    reassignments,
    record,
    share_groups,
    topic,
    topics,
    transactions,
    users,
)
from headrace.console.web.screen import Screen

SCREENS: Final[tuple[Screen, ...]] = (
    overview.SCREEN,
    topics.SCREEN,
    topic.SCREEN,
    messages.SCREEN,
    record.SCREEN,
    produce.SCREEN,
    login.SCREEN,
    brokers.SCREEN,
    reassignments.SCREEN,
    dead_letters.SCREEN,
    pipelines.SCREEN,
    groups.SCREEN,
    share_groups.SCREEN,
    transactions.SCREEN,
    users.SCREEN,
    acls.SCREEN,
    quotas.SCREEN,
)
