"""`headrace pipeline init|validate|schema|warm-up`: commands to use before a pipeline runs."""

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exits import ExitCode, usage
from headrace.cli.options import Form
from headrace.cli.output import Format, write
from headrace.cli.pipeline.flows import SpecFile, installed

if TYPE_CHECKING:
    from headrace.pipeline.spec.pipeline import PipelineSpec

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
        try:
            spec, unchecked = _checked(path, with_spark=spark)
        except SpecErrors as errors:
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
            Output(form).show({"valid": False, "mistakes": mistakes}, str(errors))
            return ExitCode.USAGE
        flows = [{"flow": flow.id, "sink": flow.sink.format} for flow in spec.resolved()]
        names = ", ".join(str(each["flow"]) for each in flows)
        facts = {"valid": True, "flows": flows, "not_checked": unchecked}
        label = "pipeline" if len(flows) == 1 else "pipelines"
        note = f"; not checked: {unchecked}" if unchecked else ""
        Output(form).show(facts, f"{path} is valid ({label}: {names}){note}")
        return ExitCode.OK

    raise typer.Exit(guard(work))


def _checked(path: Path, *, with_spark: bool) -> tuple["PipelineSpec", str]:
    """Returns the spec and the parts that could not be checked. Raises `SpecErrors`."""
    with installed():
        from pyspark.sql import SparkSession

        from headrace.pipeline.application.spec_loader import load_spec
        from headrace.pipeline.application.validation import (
            function_problems,
            needs_spark,
            plan_problems,
        )
        from headrace.pipeline.spark.session import NoSpark, open_session
    spec = load_spec(path, more=function_problems)
    if not needs_spark(spec):
        return spec, ""
    if not with_spark:
        return spec, "SQL and Python steps (--no-spark)"
    with ExitStack() as held:
        session = SparkSession.getActiveSession()
        if session is None:
            folder = Path(held.enter_context(TemporaryDirectory()))
            try:
                session = open_session("validate", master="local[1]", log=folder / "spark.log")
            except NoSpark as error:
                return spec, f"SQL and Python steps ({error})"
            held.callback(session.stop)
        found = session
        return load_spec(path, more=lambda known: plan_problems(known, found)), ""


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
