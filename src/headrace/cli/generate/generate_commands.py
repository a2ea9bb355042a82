"""`headrace generate grafana` and `headrace generate prometheus`."""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli import command
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.generate.dashboards import DASHBOARDS
from headrace.cli.generate.prometheus_rules import alert_rules, recording_rules, scrape_settings
from headrace.cli.output import write
from headrace.cli.yaml_text import to_yaml

DEFAULT_JOB: Final = "headrace"
DEFAULT_TARGET: Final = "127.0.0.1:9644"
RUNBOOKS: Final = "docs/guide/alerts.md"

app = typer.Typer(
    help="Write dashboards for Grafana, and alerts and scrape settings for Prometheus.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Write all files into this directory; creates it."
    ),
]
DashboardName = StrEnum("DashboardName", {name.upper(): name for name in DASHBOARDS})  # type: ignore[misc]


class RuleFile(StrEnum):
    """The files for Prometheus."""

    ALERTS = "alerts"
    RECORDING = "recording"
    SCRAPE = "scrape"


_RULE_FILES: Final = {
    RuleFile.ALERTS: "headrace-alerts.yml",
    RuleFile.RECORDING: "headrace-recording.yml",
    RuleFile.SCRAPE: "prometheus.yml",
}


@app.command("grafana")
def grafana(
    dashboard: Annotated[
        DashboardName | None,
        typer.Argument(
            metavar="|".join(DASHBOARDS), help="The dashboard to print.", show_default=False
        ),
    ] = None,
    output: Folder = None,
) -> None:
    """Write dashboards for Grafana as JSON files to import."""
    texts = {
        name: json.dumps(each.to_json(), indent=2, ensure_ascii=False) + "\n"
        for name, each in DASHBOARDS.items()
    }
    files = {f"headrace-{name}.json": text for name, text in texts.items()}
    chosen = None if dashboard is None else texts[str(dashboard)]
    raise typer.Exit(command.guard(lambda: _deliver(chosen, files, output, "a dashboard")))


@app.command("prometheus")
def prometheus(
    file: Annotated[
        RuleFile | None,
        typer.Argument(metavar="|".join(RuleFile), help="The file to print.", show_default=False),
    ] = None,
    output: Folder = None,
    targets: Annotated[
        list[str],
        typer.Option(
            "--target",
            metavar="HOST:PORT",
            help="Address of a broker's headrace.http.listener; repeatable.",
            show_default=DEFAULT_TARGET,
        ),
    ] = [],
    job: Annotated[
        str, typer.Option("--job", metavar="NAME", help="Name of the scrape job.")
    ] = DEFAULT_JOB,
    runbooks: Annotated[
        str,
        typer.Option(
            "--runbooks",
            metavar="URL",
            help="Where the guide to the alerts is published; each alert links to its section.",
        ),
    ] = RUNBOOKS,
) -> None:
    """Write alert rules, recording rules and scrape settings for Prometheus."""
    texts = {
        RuleFile.ALERTS: to_yaml(alert_rules(job=job, runbooks=runbooks)),
        RuleFile.RECORDING: to_yaml(recording_rules()),
        RuleFile.SCRAPE: to_yaml(scrape_settings(job=job, targets=targets or [DEFAULT_TARGET])),
    }
    files = {_RULE_FILES[each]: text for each, text in texts.items()}
    chosen = None if file is None else texts[file]
    raise typer.Exit(command.guard(lambda: _deliver(chosen, files, output, "a file")))


def _deliver(
    chosen: str | None, files: Mapping[str, str], output: Path | None, what: str
) -> ExitCode:
    """Prints the chosen text, or writes all files."""
    if chosen is not None and output is not None:
        raise usage(f"name {what} to print it, or give --output DIR to write all files")
    if chosen is not None:
        write(chosen)
    elif output is None:
        raise usage(f"name {what} to print it, or give --output DIR to write all files")
    else:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (output / name).write_text(text, encoding="utf-8")
            write(f"{output / name}\n")
    return ExitCode.OK
