"""`headrace pipeline init|validate|schema|warm-up`: commands to use before a pipeline runs."""

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import Form
from headrace.cli.output import Format, write
from headrace.cli.pipeline.flow_selection import SpecFile, installed, invalid_spec

if TYPE_CHECKING:
    from headrace.pipeline.spec.pipeline import PipelineSpec
    from headrace.pipeline.spec.spec_errors import SpecErrors
    from headrace.pipeline.spec.spec_rules import Problem

app = typer.Typer()


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path(
        "pipeline.yaml"
    ),
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="TOPIC", help="Topic that the pipeline reads.")
    ] = "orders",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write an example spec."""
    from headrace.cli.command import guard
    from headrace.cli.pipeline.example_spec import example

    def work() -> None:
        if path.exists() and not force:
            raise usage(f"{path} already exists; add --force to replace it")
        path.write_text(example(topic), encoding="utf-8")
        write(f"Wrote {path}. Edit it, then run:\n")
        write(f"  headrace pipeline validate {path}\n  headrace pipeline run {path}\n")

    raise typer.Exit(guard(work))


@app.command()
def validate(
    path: SpecFile,
    spark: Annotated[
        bool,
        typer.Option("--spark/--no-spark", help="Check SQL and Python steps with Spark."),
    ] = True,
    form: Form = Format.TEXT,
) -> None:
    """Check a spec, and show the line and the correction of each mistake.

    SQL and Python steps run on no rows, in a local Spark. No broker or schema registry is used.
    """
    from headrace.cli.command import guard
    from headrace.cli.output import Output

    def work() -> ExitCode:
        with installed():
            from headrace.pipeline.spec import SpecErrors
        skipped: list[str] = []
        try:
            spec = _checked(path, skipped, with_spark=spark)
        except SpecErrors as errors:
            if form is Format.TEXT:
                raise invalid_spec(errors, _note(skipped, "\n")) from errors
            Output(form).show(_mistakes(errors) | {"not_checked": "".join(skipped)})
            return ExitCode.USAGE
        flows = [{"flow": flow.id, "sink": flow.sink.format} for flow in spec.resolved()]
        names = ", ".join(str(each["flow"]) for each in flows)
        facts = {"valid": True, "flows": flows, "not_checked": "".join(skipped)}
        label = "pipeline" if len(flows) == 1 else "pipelines"
        Output(form).show(facts, f"{path} is valid ({label}: {names}){_note(skipped, '; ')}")
        return ExitCode.OK

    raise typer.Exit(guard(work))


def _mistakes(errors: "SpecErrors") -> dict[str, object]:
    mistakes = [
        {
            "line": each.line,
            "column": each.column,
            "path": each.dotted,
            "message": each.message,
            "fix": each.fix,
        }
        for each in errors.errors
    ]
    return {"valid": False, "mistakes": mistakes}


def _note(skipped: list[str], separator: str) -> str:
    return f"{separator}not checked: {', '.join(skipped)}" if skipped else ""


def _checked(path: Path, unchecked: list[str], *, with_spark: bool) -> "PipelineSpec":
    """Returns the spec. Raises `SpecErrors`. Adds the parts that it cannot check to `unchecked`."""
    with installed():
        from pyspark.sql import SparkSession

        from headrace.pipeline.application.spec_loader import load_spec
        from headrace.pipeline.application.validation import needs_spark, step_problems
        from headrace.pipeline.spark.session import NoSpark, open_session
    with ExitStack() as held:

        def check_steps(spec: "PipelineSpec") -> "list[Problem]":
            if not needs_spark(spec):
                return step_problems(spec, None)
            if not with_spark:
                unchecked.append("SQL and Python steps (--no-spark)")
                return step_problems(spec, None)
            session = SparkSession.getActiveSession()
            if session is None:
                folder = Path(held.enter_context(TemporaryDirectory()))
                try:
                    session = open_session("validate", master="local[1]", log=folder / "spark.log")
                except NoSpark as error:
                    unchecked.append(f"SQL and Python steps ({error})")
                    return step_problems(spec, None)
                held.callback(session.stop)
            return step_problems(spec, session)

        return load_spec(path, more=check_steps)


@app.command()
def schema() -> None:
    """Print the JSON Schema of specs, for editors."""
    from headrace.cli.command import guard

    def work() -> None:
        with installed():
            from headrace.pipeline.spec import json_schema
        write(json.dumps(json_schema(), indent=2) + "\n")

    raise typer.Exit(guard(work))


@app.command("warm-up")
def warm_up() -> None:
    """Compile the record decoder, so that the first batch does not wait for it."""
    from headrace.cli.command import guard

    def work() -> None:
        with installed():
            from headrace.pipeline.application.jit_warmup import warm_up
        write(f"the decoder is compiled ({warm_up():.1f} s)\n")

    raise typer.Exit(guard(work))
