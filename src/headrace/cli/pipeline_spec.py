"""`headrace pipeline init|validate|schema|warm-up`: before anything runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.exits import ExitCode, usage
from headrace.cli.output import Format, write
from headrace.cli.pipeline_flows import SpecFile, installed

app = typer.Typer()


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE")] = Path("pipeline.yaml"),
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC")] = "orders",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a spec to start from."""
    from headrace.cli.commands import guard
    from headrace.cli.pipeline_example import example

    def work() -> None:
        if path.exists() and not force:
            raise usage(f"{path} is there already; --force replaces it")
        path.write_text(example(topic), encoding="utf-8")
        write(f"{path} is written. Change it to fit, then:\n")
        write(f"  headrace pipeline validate {path}\n  headrace pipeline run {path}\n")

    raise typer.Exit(guard(work))


@app.command()
def validate(
    path: SpecFile,
    form: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = (
        Format.TEXT
    ),
) -> None:
    """Check a spec: every mistake with its line and what to write instead."""
    from headrace.cli.commands import guard
    from headrace.cli.output import Output

    def work() -> ExitCode:
        with installed():
            from headrace.pipeline.spec import SpecErrors, load_spec
        try:
            spec = load_spec(path)
        except SpecErrors as errors:
            facts = [
                {
                    "line": each.line,
                    "column": each.column,
                    "path": each.dotted,
                    "message": each.message,
                    "fix": each.fix,
                }
                for each in errors.errors
            ]
            Output(form).show({"valid": False, "mistakes": facts}, str(errors))
            return ExitCode.USAGE
        flows = [{"flow": flow.id, "sink": flow.sink.format} for flow in spec.resolved()]
        names = ", ".join(str(each["flow"]) for each in flows)
        Output(form).show({"valid": True, "flows": flows}, f"{path} is right ({names})")
        return ExitCode.OK

    raise typer.Exit(guard(work))


@app.command()
def schema() -> None:
    """Print the JSON Schema of specs, for editors."""
    from headrace.cli.commands import guard

    def work() -> None:
        with installed():
            from headrace.pipeline.spec import json_schema
        write(json.dumps(json_schema(), indent=2) + "\n")

    raise typer.Exit(guard(work))


@app.command("warm-up")
def warm_up() -> None:
    """Compile the record decoder, so that the first batch does not wait for it."""
    from headrace.cli.commands import guard

    def work() -> None:
        with installed():
            from headrace.pipeline.runner.warming import warm_up
        write(f"the decoder is compiled ({warm_up():.1f} s)\n")

    raise typer.Exit(guard(work))
