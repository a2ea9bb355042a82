"""`headrace pipeline`: topics into tables on Spark, and files into topics, from a spec.

Spark, pydantic and the table libraries are only imported by the commands that need them: they are
an extra, and slow to load.
"""

import typer

from headrace.cli.pipeline import maintenance, run, spec, status

app = typer.Typer(
    help="Pipelines: topics into tables on Spark, files into topics.", no_args_is_help=True
)
for part in (spec, run, status, maintenance):
    app.registered_commands += part.app.registered_commands
