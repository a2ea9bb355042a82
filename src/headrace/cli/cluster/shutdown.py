"""`headrace cluster shutdown`: stops a cluster on this machine, or one of its brokers.

Brokers that were started with `broker start` are stopped first, while ZooKeeper still runs, so that
they can hand over their leaderships. `cluster up` then stops its own brokers and ZooKeeper.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import typer

from headrace.cli import command
from headrace.cli.cluster.running_cluster import LockedProcess, RunningCluster, find_running
from headrace.cli.cluster.up import Data, default_folder
from headrace.cli.confirmation import Execute, OldYes, is_approved
from headrace.cli.error_messages import not_found
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.output import Format, Output, Table, remark

POLL_S: Final = 0.02
UP: Final = "cluster up"
BY_UP: Final = "cluster up"
BY_START: Final = "broker start"


def shutdown(
    data: Data = None,
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="ID", help="Stop only this broker."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            help="Maximum time to wait for each process to end.",
        ),
    ] = 60.0,
    execute: Execute = False,
    yes: OldYes = False,
) -> None:
    """Stop a cluster that `cluster up` started on this machine, or one of its brokers.

    Brokers of the same directory that `broker start` started are stopped, too.
    """

    def work() -> ExitCode:
        wanted: dict[str, object] = {"execute": execute, "yes": yes}
        command.apply_deprecated_yes(wanted)
        folder = (data or default_folder()).absolute()
        running = find_running(folder)
        if running is None:
            raise CommandFailed(
                f"no cluster of `headrace cluster up` runs in {folder}", ExitCode.NOT_FOUND
            )
        chosen = running.brokers if broker is None else {broker: _broker_of(running, broker)}
        if not _approve(running, chosen, broker, execute=bool(wanted["execute"])):
            return ExitCode.OK
        if broker is not None:
            _stop(chosen[broker], f"broker {broker}", timeout)
            remark(f"stopped broker {broker}")
        else:
            _stop_all(running, timeout)
        return ExitCode.OK

    raise typer.Exit(command.guard(work))


def _broker_of(running: RunningCluster, broker: int) -> LockedProcess:
    process = running.brokers.get(broker)
    if process is not None:
        return process
    if broker in running.elsewhere:
        raise CommandFailed(
            f"the data of broker {broker} at {running.elsewhere[broker]} is not in this directory: "
            "stop the broker where it was started"
        )
    if broker in running.stopped:
        raise CommandFailed(f"broker {broker} is not running")
    known = {*running.brokers, *running.stopped}
    raise not_found("broker", str(broker), map(str, sorted(known)))


def _approve(
    running: RunningCluster,
    chosen: Mapping[int, LockedProcess],
    broker: int | None,
    *,
    execute: bool,
) -> bool:
    facts: list[dict[str, object]] = [
        {
            "broker": id_,
            "pid": process.pid,
            "started_by": BY_UP if id_ in running.children else BY_START,
        }
        for id_, process in chosen.items()
    ]
    table = Table(("BROKER TO STOP", "PID", "STARTED BY"), [tuple(each.values()) for each in facts])
    action = "stop the cluster" if broker is None else f"stop broker {broker}"
    return is_approved(Output(Format.TEXT), execute, action, facts, table)


def _stop_all(running: RunningCluster, timeout_s: float) -> None:
    for id_ in _without_children(running):
        _stop(running.brokers[id_], f"broker {id_}", timeout_s)
        remark(f"stopped broker {id_}, which `broker start` had started")
    if running.up is not None:
        _stop(running.up, f"`{UP}`", timeout_s)
    remark("stopped the cluster")
    for id_, address in running.elsewhere.items():
        remark(
            f"broker {id_} at {address} was a member, too; its data is elsewhere, so it still runs"
        )


def _without_children(running: RunningCluster) -> Iterable[int]:
    return sorted(set(running.brokers) - running.children)


def _stop(process: LockedProcess, what: str, timeout_s: float) -> None:
    give_up = time.monotonic() + timeout_s
    process.ask_to_stop()
    while process.runs:
        if time.monotonic() > give_up:
            raise CommandFailed(
                f"{what} (process {process.pid}) has not ended within {timeout_s:g} s"
            )
        time.sleep(POLL_S)


def register(app: typer.Typer) -> None:
    app.command("shutdown")(shutdown)
