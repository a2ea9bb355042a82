"""`headrace pipeline`: topics into tables on Spark, and files into topics, from a spec.

Only the commands that need Spark, pydantic or the table libraries import them. These libraries are
an extra, and they are slow to load.
"""

import typer

from headrace.cli.pipeline import maintenance, run, spec_commands, status

app = typer.Typer(
    help="Write topics into tables with Spark, and files into topics.", no_args_is_help=True
)
for part in (spec_commands, run, status, maintenance):
    app.registered_commands += part.app.registered_commands
