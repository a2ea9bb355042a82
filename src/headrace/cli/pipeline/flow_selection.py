"""Helpers for the commands of `headrace pipeline`: load a spec, select its flows, open them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.error_messages import not_found, usage
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.output import counted
from headrace.cli.profiles import DEFAULT_SERVERS, SERVERS
from headrace.cli.session import Session

if TYPE_CHECKING:
    from headrace.pipeline.inflow.inflow_position import Inflow
    from headrace.pipeline.runner.flow_context import FlowContext
    from headrace.pipeline.sinks.table_sink import TableSink
    from headrace.pipeline.spec.flow import Flow
    from headrace.pipeline.spec.pipeline import PipelineSpec
    from headrace.pipeline.spec.spec_errors import SpecErrors

INSTALL: Final = "pipelines need more libraries: pip install 'headrace[pipeline]'"

SpecFile = Annotated[
    Path, typer.Argument(metavar="SPEC", help="The pipeline's YAML file.", show_default=False)
]
FlowName = Annotated[
    str | None,
    typer.Option(
        "--flow", metavar="NAME", help="Only this flow of the pipeline.", show_default="all flows"
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, or sc://HOST:PORT (Connect).",
        show_default="local[*]",
    ),
]


@contextmanager
def installed() -> Iterator[None]:
    """Turns a missing library of the extra into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "headrace":
            raise
        raise CommandFailed(f"{INSTALL} ({error.name} is missing)") from error


def load(path: Path) -> "PipelineSpec":
    """Returns the spec. If it is invalid, the command fails and lists all of its errors."""
    with installed():
        from headrace.pipeline.application.spec_loader import load_spec
        from headrace.pipeline.spec.spec_errors import SpecErrors
    try:
        return load_spec(path)
    except SpecErrors as errors:
        raise invalid_spec(errors) from errors


def invalid_spec(errors: "SpecErrors", note: str = "") -> CommandFailed:
    """All errors of a spec; a file that cannot be read has one error, without a position."""
    if any(each.line for each in errors.errors):
        return usage(f"the spec has {counted(len(errors.errors), 'mistake')}\n{errors}{note}")
    return usage(f"{errors}{note}")


def given(session: Session, spec: "PipelineSpec") -> dict[str, str]:
    """Returns the client settings that override the spec's.

    The default server address is left out if every flow's spec names its own servers.
    """
    settings = dict(session.resolved)
    unnamed = not session.servers_named and settings[SERVERS] == DEFAULT_SERVERS
    if unnamed and all(_has_servers(flow) for flow in spec.resolved()):
        del settings[SERVERS]
    return settings


def _has_servers(flow: "Flow") -> bool:
    own = getattr(flow.source, "kafka", None)
    return SERVERS in flow.kafka.root or (own is not None and SERVERS in own.root)


def chosen(spec: "PipelineSpec", name: str | None) -> list["Flow"]:
    """Returns all flows, or only the flow with this name."""
    flows = list(spec.resolved())
    if name is None:
        return flows
    names = {flow.id.removeprefix(f"{spec.pipeline}."): flow for flow in flows}
    if name not in names:
        raise not_found("flow", name, names)
    return [names[name]]


def reads_topics(flow: "Flow") -> bool:
    from headrace.pipeline.spec.sources import TopicSource

    return isinstance(flow.source, TopicSource)


def running(flow: "Flow") -> bool:
    """Whether a run has locked the flow's checkpoint now."""
    from headrace.pipeline.batch.checkpoint_directory import Checkpoint

    return Checkpoint(flow.checkpoint).is_locked()


@contextmanager
def opened(session: Session, spec: "PipelineSpec", flow: "Flow") -> Iterator["FlowContext"]:
    """Opens a flow's log, table and dead letters."""
    with installed():
        from headrace.pipeline.runner.flow_context import open_flow_context
    with explained(flow), closing(open_flow_context(flow, given(session, spec))) as parts:
        yield parts


@contextmanager
def opened_inflow(session: Session, spec: "PipelineSpec", flow: "Flow") -> Iterator["Inflow"]:
    """Opens the source files or table of a flow, and its topic."""
    with installed():
        from headrace.pipeline.inflow.inflow_position import open_inflow
    with explained(flow), closing(open_inflow(flow, given(session, spec))) as inflow:
        yield inflow


@contextmanager
def opened_sink(session: Session, spec: "PipelineSpec", flow: "Flow") -> Iterator["TableSink"]:
    """Opens only a flow's table. It does not contact a broker."""
    with installed():
        from headrace.pipeline.runner.flow_factory import open_sink
    with explained(flow):
        yield open_sink(flow, given(session, spec))


@contextmanager
def explained(flow: "Flow") -> Iterator[None]:
    """Turns any error of a flow into a command error of one sentence."""
    from headrace.pipeline.runner.failures import failure_of

    try:
        yield
    except CommandFailed:
        raise
    except Exception as error:
        failure = failure_of(error)
        code = ExitCode.UNREACHABLE if failure.unreachable else ExitCode.ERROR
        raise CommandFailed(f"{flow.id}: {failure.message}", code) from error
