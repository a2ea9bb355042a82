"""The topic that a path names."""

from difflib import get_close_matches

from headrace.console.cluster.snapshot import TopicState
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page


async def topic_of(page: Page) -> TopicState:
    """The topic in the snapshot; raises `PageError` (404) if it does not exist."""
    name = page.path("topic")
    snapshot = await page.snapshot()
    topic = snapshot.topics.get(name)
    if topic is None:
        await page.refreshed()  # it may have been created a moment ago
        snapshot = await page.snapshot()
        topic = snapshot.topics.get(name)
    if topic is None:
        near = get_close_matches(name, snapshot.topics, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise PageError(
            404, "No such topic", f"There is no topic {name!r}, or you may not see it.{hint}"
        )
    return topic
