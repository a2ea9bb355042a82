"""`headrace pipeline run`: runs a pipeline and shows each batch."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.broker.options import MAX_PORT
from headrace.cli.command import command
from headrace.cli.error_messages import usage
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
    from headrace.pipeline.runner.batch_tracing import BatchTracing
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
    traces_endpoint: Annotated[
        str | None,
        typer.Option(
            "--traces-endpoint",
            metavar="URL",
            help="Export a span for each batch to this OTLP/HTTP receiver, such as "
            "http://127.0.0.1:4318, with links to the traces of its records.",
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
    flows = chosen(spec, flow)
    return run_flows(session, spec, flows, settings, metrics_port, traces_endpoint)


def run_flows(
    session: Session,
    spec: "PipelineSpec",
    flows: Sequence["Flow"],
    settings: "RunSettings",
    metrics_port: int | None = None,
    traces_endpoint: str | None = None,
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
        if traces_endpoint is not None:
            tracing = _tracing(traces_endpoint, flows, settings)
            shown.callback(tracing.close)
            listeners.append(tracing)
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


def _tracing(endpoint: str, flows: Sequence["Flow"], settings: "RunSettings") -> "BatchTracing":
    from headrace.pipeline.runner.batch_tracing import BatchTracing
    from headrace.pipeline.runner.flow_factory import kafka_settings
    from headrace.pipeline.runner.source_topics import source_read_settings
    from headrace.pipeline.spec.sources import TopicSource
    from headrace.tracing.span_exporter import InvalidEndpoint, is_exporter_installed

    if not is_exporter_installed():
        raise CommandFailed("--traces-endpoint needs pip install 'headrace[telemetry]'")
    sources = {
        flow.id: source_read_settings(flow.source, kafka_settings(flow, settings.kafka))
        for flow in flows
        if isinstance(flow.source, TopicSource)
    }
    try:
        return BatchTracing(endpoint, sources)
    except InvalidEndpoint as error:
        raise usage(f"--traces-endpoint: {error}") from error


def _code(failed: Sequence["FlowFailed"], flows: int) -> ExitCode:
    if not failed:
        return ExitCode.OK
    if len(failed) < flows:
        return ExitCode.PARTIAL
    gone = all(each.failure.unreachable for each in failed)
    return ExitCode.UNREACHABLE if gone else ExitCode.ERROR
