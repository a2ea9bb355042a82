"""`headrace pipeline run`: runs a pipeline and shows each batch."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.broker.options import MAX_PORT
from headrace.cli.command import command
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.output import Format, is_live_terminal, remark, write
from headrace.cli.pipeline.display import Display, leave_screen, print_line
from headrace.cli.pipeline.flow_selection import (
    FlowName,
    Master,
    SpecFile,
    chosen,
    given,
    installed,
    load,
)
from headrace.cli.session import Session

if TYPE_CHECKING:
    from headrace.pipeline.application.application import RunSettings
    from headrace.pipeline.runner.events import Report
    from headrace.pipeline.runner.flow_retries import FlowFailed
    from headrace.pipeline.spec.flow import Flow
    from headrace.pipeline.spec.pipeline import PipelineSpec


app = typer.Typer()


@command(app, "run")
def run(
    session: Session,
    path: SpecFile,
    master: Master = None,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up", help="Stop when all input that exists at the start is written."
        ),
    ] = False,
    flow: FlowName = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=MAX_PORT,
            help="Serve Prometheus metrics on this port; 0 selects a free port.",
        ),
    ] = None,
) -> ExitCode | None:
    """Run a pipeline until it is stopped. Each record is written exactly once.

    Ctrl-C or SIGTERM stops the pipeline after the current batch. A second one stops it
    immediately; no data is lost.
    """
    spec = load(path)
    with installed():
        from headrace.pipeline.application.application import RunSettings
    settings = RunSettings(given(session, spec), master, until_caught_up=until_caught_up)
    return run_flows(session, spec, chosen(spec, flow), settings, metrics_port)


def run_flows(
    session: Session,
    spec: "PipelineSpec",
    flows: Sequence["Flow"],
    settings: "RunSettings",
    metrics_port: int | None = None,
) -> ExitCode:
    with installed():
        from headrace.pipeline.application.application import Application
        from headrace.pipeline.application.summary import RunSummary
        from headrace.pipeline.batch.checkpoint_directory import CheckpointError
        from headrace.pipeline.spark.session import NoSpark
    with ExitStack() as shown:
        listeners: list[Report] = []
        if metrics_port is not None:
            listeners.append(_metrics(metrics_port))
        summary = RunSummary()
        listeners.append(summary)
        live = session.output.form is Format.TEXT and is_live_terminal()
        if live:
            shown.callback(lambda: write(f"{summary}\n"))  # print below the last screen
            listeners.append(shown.enter_context(Display([flow.id for flow in flows]).shown()))
        else:
            listeners.append(print_line)
        try:
            failed = Application(
                spec, settings, listeners, flows=flows, before_exit=leave_screen
            ).run()
        except (NoSpark, CheckpointError) as error:
            raise CommandFailed(str(error)) from error
    for each in failed:
        remark(f"{each.flow}: {each}")
    return _code(failed, len(flows))


def _metrics(port: int) -> "Report":
    from headrace.pipeline.application.metrics import Metrics

    metrics = Metrics()
    try:
        taken = metrics.serve(port)
    except OSError as error:
        raise CommandFailed(f"port {port} for metrics: {error.strerror}") from error
    remark(f"metrics at http://localhost:{taken}/metrics")
    return metrics


def _code(failed: Sequence["FlowFailed"], flows: int) -> ExitCode:
    if not failed:
        return ExitCode.OK
    if len(failed) < flows:
        return ExitCode.PARTIAL
    gone = all(each.failure.unreachable for each in failed)
    return ExitCode.UNREACHABLE if gone else ExitCode.ERROR
