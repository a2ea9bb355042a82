"""Overview: the verdict, key figures and live charts."""

from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Final

from starlette.responses import Response

from headrace.console.cluster.rates import HistoryPoint
from headrace.console.cluster.snapshot import TopicState
from headrace.console.cluster.verdict import verdict_of
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get

TOP: Final = 8


async def show(page: Page) -> Response:
    try:
        snapshot = await page.snapshot()
    except PageError as error:
        verdict = verdict_of(None, error.detail)
        return page.render("overview.html", status=503, verdict=verdict, snapshot=None)
    view = page.cluster.poller.view
    topics = [topic for topic in snapshot.topics.values() if not topic.is_internal]
    return page.render(
        "overview.html",
        snapshot=snapshot,
        verdict=verdict_of(snapshot, view.problem),
        charts=_charts(page.cluster.poller.history),
        busiest=_largest(topics, lambda each: each.records_per_s or 0.0),
        largest=_largest(topics, lambda each: each.bytes or 0),
        behind=nlargest(TOP, snapshot.groups.values(), key=lambda each: each.lag or 0),
        topic_count=len(topics),
    )


def _largest(topics: Sequence[TopicState], by: Callable[[TopicState], float]) -> list[TopicState]:
    return [topic for topic in nlargest(TOP, topics, key=by) if by(topic)]


def _charts(history: Sequence[HistoryPoint]) -> list[dict[str, object]]:
    """The series of each chart, as the script draws them."""

    def chart(
        id_: str, title: str, unit: str, value: Callable[[HistoryPoint], float | None]
    ) -> dict[str, object]:
        values = [value(point) for point in history]
        return {
            "id": id_,
            "title": title,
            "unit": unit,
            "times": [point.at_ms for point in history],
            "values": [None if each is None else round(each, 2) for each in values],
            "latest": values[-1] if values else None,
        }

    return [
        chart("records", "Records written", "records/s", lambda point: point.records_per_s),
        chart("bytes", "Bytes written", "bytes/s", lambda point: point.bytes_per_s),
        chart("lag", "Consumer lag", "records", lambda point: point.lag),
        chart(
            "under-replicated",
            "Under-replicated partitions",
            "partitions",
            lambda point: point.under_replicated,
        ),
    ]


SCREEN: Final = Screen("overview", (get("/", show),))
