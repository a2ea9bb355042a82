"""Options that `headrace group` and `headrace share` have in common."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import completion

Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,2]",
        help="Move only this topic or these partitions; repeatable.",
        show_default="all with committed offsets",
        autocompletion=completion.topics,
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="POSITION",
        help="Move to beginning, end, OFFSET, -N (the last N records) or s@TIME.",
    ),
]
Shift = Annotated[
    int | None,
    typer.Option("--shift", metavar="N", help="Shift by N records (negative moves back)."),
]
ToFile = Annotated[
    Path | None,
    typer.Option(
        "--to-file",
        metavar="FILE",
        help="Move to the offsets in a file of TOPIC,PARTITION,OFFSET lines.",
    ),
]
OnlyTopics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Delete only the offsets in this topic; repeatable.",
        autocompletion=completion.topics,
    ),
]
States = Annotated[
    list[str],
    typer.Option(
        "--state",
        metavar="STATE",
        help="List only groups in this state, such as Stable; repeatable.",
    ),
]
WithLag = Annotated[
    bool,
    typer.Option("--lag", help="Also show the lag of each group, in records and in seconds."),
]
