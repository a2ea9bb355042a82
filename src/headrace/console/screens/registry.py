"""All screens. A new screen is added here, and to navigation.py if it has a link there."""

from typing import Final

from headrace.console.screens import login, messages, overview, produce, record, topic, topics
from headrace.console.web.screen import Screen

SCREENS: Final[tuple[Screen, ...]] = (
    overview.SCREEN,
    topics.SCREEN,
    topic.SCREEN,
    messages.SCREEN,
    record.SCREEN,
    produce.SCREEN,
    login.SCREEN,
)
