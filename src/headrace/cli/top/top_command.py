"""`headrace top`: a live view of brokers, topics by traffic, groups by lag, and slow requests."""

import asyncio
import json
import sys
from typing import Annotated, Final

import typer

from headrace.cli.command import command
from headrace.cli.error_messages import explain
from headrace.cli.output import Format, Table, is_live_terminal, remark, write
from headrace.cli.session import Session
from headrace.cli.timestamps import iso_time
from headrace.cli.top.collect import Collector
from headrace.cli.top.http_login import PASSWORD, TOKEN, USERNAME, http_login
from headrace.cli.top.keyboard import keys
from headrace.cli.top.sample import Sample
from headrace.cli.top.screen import TopScreen
from headrace.cli.top.views import View, ViewName, view_of
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.clock import SystemClock

DEFAULT_INTERVAL_S: Final = 2.0
REDRAW_S: Final = 0.1
"""The time in which a key takes effect."""


def register(app: typer.Typer) -> None:
    """Adds `top`."""

    @command(app, "top")
    def top(
        session: Session,
        view: Annotated[
            ViewName | None,
            typer.Argument(
                metavar="|".join(ViewName),
                help="The view to show first; with --once, the only one.",
                show_default="topics; with --once all",
            ),
        ] = None,
        interval: Annotated[
            float,
            typer.Option(
                "--interval", metavar="SECONDS", min=0.1, help="Time between two samples."
            ),
        ] = DEFAULT_INTERVAL_S,
        once: Annotated[
            bool,
            typer.Option("--once", help="Print the rates of one interval, and end."),
        ] = False,
        no_metrics: Annotated[
            bool,
            typer.Option(
                "--no-metrics", help="Use only Kafka's protocol, not the brokers' HTTP ports."
            ),
        ] = False,
    ) -> None:
        """Show brokers, topics by traffic, groups by lag and slow requests, live.

        Keys: q quits, 1 to 4 and Tab choose the view, s sorts by the next column, r reverses.
        """

        async def work(client: ClusterClient) -> None:
            collector = Collector(
                client,
                timeout_s=session.timeout_s,
                use_metrics=not no_metrics,
                login=http_login(session.resolved),
            )
            if session.output.form is Format.TEXT and is_live_terminal() and not once:
                await _show_live(collector, view or ViewName.TOPICS, interval)
            elif once or session.output.form is not Format.JSON:
                await _print_once(session, collector, view, interval)
            else:
                await _print_lines(collector, view, interval)

        session.run(work)


async def _show_live(collector: Collector, view: ViewName, interval_s: float) -> None:
    from rich.live import Live

    screen = TopScreen(view)
    sampling = asyncio.create_task(_sample_into(screen, collector, interval_s))
    try:
        with keys(screen.press), Live(screen, screen=True, auto_refresh=False) as live:
            while not screen.quit:
                if sampling.done():
                    sampling.result()
                live.refresh()
                await asyncio.sleep(REDRAW_S)
    finally:
        sampling.cancel()


async def _sample_into(screen: TopScreen, collector: Collector, interval_s: float) -> None:
    while True:
        try:
            screen.show(await collector.take())
        except ClientError as error:
            screen.show_failure(str(explain(error)))
        await asyncio.sleep(interval_s)


async def _print_once(
    session: Session, collector: Collector, view: ViewName | None, interval_s: float
) -> None:
    before = await collector.take()
    _remark_refusals(before)
    await asyncio.sleep(interval_s)
    shown = _views(view, before, await collector.take())
    facts = {each.name.value: each.facts() for each in shown}
    session.output.show(facts, *(_block(each) for each in shown))


def _remark_refusals(sample: Sample) -> None:
    for broker, reason in sample.refused.items():
        remark(
            f"broker {broker} refused its metrics: {reason}; set {USERNAME} and {PASSWORD}, or "
            f"{TOKEN}, in a profile"
        )


def _views(view: ViewName | None, before: Sample, now: Sample) -> list[View]:
    return [view_of(name, before, now) for name in ([view] if view else ViewName)]


def _block(view: View) -> Table | str:
    if not view.rows:
        return view.note or f"no {view.name}"
    return Table(
        tuple(column.header for column in view.columns),
        [
            [column.show(value) for column, value in zip(view.columns, row, strict=True)]
            for row in view.sorted_by(view.sort)
        ],
    )


async def _print_lines(collector: Collector, view: ViewName | None, interval_s: float) -> None:
    """An object for each interval."""
    before = await collector.take()
    _remark_refusals(before)
    while True:
        await asyncio.sleep(interval_s)
        now = await collector.take()
        facts = {each.name.value: each.facts() for each in _views(view, before, now)}
        time = iso_time(SystemClock().wall_ms())
        write(json.dumps({"time": time, **facts}, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        before = now
