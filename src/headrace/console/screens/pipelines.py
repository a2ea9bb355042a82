"""Pipelines: lag, rows a second, batches by phase, table versions with offsets, history, spec.

A pipeline is found in two ways. Its consumer group's offsets carry a mark in their metadata, so any
cluster tells which pipelines read from it, with the batch, the table version and the lag. The
checkpoint directories in `--pipelines` add what only the pipeline's machine knows.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from headrace.console.cluster.snapshot import GroupState
from headrace.console.screens import pipeline_work as work
from headrace.console.screens.pipeline_timeline import (
    PHASES,
    BatchEvent,
    bars_of,
    positions_of,
    rows_per_s,
)
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get
from headrace.pipeline.core.group_metadata import Progress

FILES_CACHE_S: Final = 4.0
TIMELINE_BATCHES: Final = 40
RECENT_MS: Final = 10 * 60_000


class PipelineRow(NamedTuple):
    """One pipeline; what is not known is None."""

    id: str
    group: GroupState | None
    progress: Progress | None
    checkpoint: work.FoundCheckpoint | None
    last: BatchEvent | None = None
    rows_per_s: float | None = None

    @property
    def lag(self) -> int | None:
        return None if self.group is None else self.group.lag

    @property
    def state(self) -> str:
        if self.checkpoint is None:
            return "unknown"
        if self.checkpoint.is_running:
            return "running"
        if self.last is not None and self.last.kind == "failed":
            return "failed"
        return "stopped"


def level_of(state: str) -> str:
    return {"running": "ok", "failed": "critical", "stopped": "", "unknown": "info"}[state]


async def _files(page: Page) -> tuple[Sequence[work.FoundCheckpoint], Sequence[str]]:
    paths = page.settings.pipelines
    if not paths:
        return (), ()
    return await page.cluster.cached(
        "pipeline-files", FILES_CACHE_S, lambda: asyncio.to_thread(work.find_checkpoints, paths)
    )


async def _events(page: Page, path: str) -> Sequence[BatchEvent]:
    return await page.cluster.cached(
        ("pipeline-events", path), FILES_CACHE_S, lambda: asyncio.to_thread(work.read_events, path)
    )


async def _rows(page: Page) -> tuple[list[PipelineRow], Sequence[str]]:
    snapshot = await page.snapshot()
    marked = {
        group.id: group.pipeline for group in snapshot.groups.values() if group.pipeline is not None
    }
    checkpoints, problems = await _files(page)
    by_flow = {each.flow: each for each in checkpoints}
    rows = [
        PipelineRow(name, snapshot.groups.get(name), marked.get(name), by_flow.get(name))
        for name in sorted({*marked, *by_flow})
    ]
    return rows, problems


async def show_list(page: Page) -> Response:
    search = page.query("q").lower()
    rows, problems = await _rows(page)
    shown = paged(
        [row for row in rows if search in row.id.lower()],
        page.integer("page", 1, low=1),
        page.integer("size", DEFAULT_PAGE_SIZE),
    )
    details = await asyncio.gather(*(_with_history(page, row) for row in shown.rows))
    return page.render(
        "pipelines.html",
        paged=shown,
        rows=details,
        problems=problems,
        search=page.query("q"),
        paths=page.settings.pipelines,
        level_of=level_of,
        pipeline_path=pipeline_path,
    )


async def _with_history(page: Page, row: PipelineRow) -> PipelineRow:
    if row.checkpoint is None:
        return row
    try:
        events = await _events(page, row.checkpoint.path)
    except PageError:
        return row
    return row._replace(last=events[-1] if events else None, rows_per_s=_recent_rate(page, events))


def _recent_rate(page: Page, events: Sequence[BatchEvent]) -> float | None:
    """Rows a second; 0 if the last batch is long ago."""
    rate = rows_per_s(events)
    last = next((each for each in reversed(events) if each.is_batch), None)
    if rate is None or last is None:
        return None
    return 0.0 if page.console.clock.wall_ms() - last.time_ms > RECENT_MS else rate


def pipeline_path(flow: str) -> str:
    return f"/pipelines/{quote(flow, safe='')}"


async def show(page: Page) -> Response:
    name = page.path("flow")
    rows, _ = await _rows(page)
    row = next((each for each in rows if each.id == name), None)
    if row is None:
        raise PageError(
            404,
            "No such pipeline",
            f"Neither a group of the cluster nor a checkpoint directory belongs to {name!r}.",
        )
    events: Sequence[BatchEvent] = ()
    problem: str | None = None
    spec: str | None = None
    if row.checkpoint is not None:
        try:
            events = await _events(page, row.checkpoint.path)
        except PageError as error:
            problem = error.detail
        spec = work.spec_text(row.checkpoint.run)
    row = row._replace(last=events[-1] if events else None, rows_per_s=_recent_rate(page, events))
    batches = [each for each in events if each.is_batch]
    return page.render(
        "pipeline.html",
        row=row,
        run=row.checkpoint.run if row.checkpoint is not None else {},
        problem=problem,
        spec=spec,
        bars=bars_of(events, TIMELINE_BATCHES),
        phases=PHASES,
        positions=positions_of(events) or _group_positions(row.group),
        last_batch=batches[-1] if batches else None,
        dead_letters=sum(each.dead_letters for each in batches),
        events=paged(
            list(reversed(events)),
            page.integer("page", 1, low=1),
            page.integer("size", DEFAULT_PAGE_SIZE),
        ),
        level_of=level_of,
        paths=page.settings.pipelines,
    )


def _group_positions(group: GroupState | None) -> list[tuple[str, str, int, int | None]]:
    """The positions that the cluster knows, where the history is not readable."""
    if group is None:
        return []
    return [
        (each.topic, str(each.partition), offset, None)
        for each, offset in sorted(group.committed.items())
    ]


SCREEN: Final = Screen(
    "pipelines", (get("/pipelines", show_list), get("/pipelines/{flow:path}", show))
)
