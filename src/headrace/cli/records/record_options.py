"""Options that `headrace consume` and `headrace produce` have in common."""

from typing import Any, Final

import typer

from headrace.cli.records.value_encoding import ValueEncoding

ENCODINGS: Final = ", ".join(ValueEncoding)


def encoding_option(flag: str, what: str) -> Any:  # noqa: ANN401  # as typer.Option itself
    """The option with the encoding of keys, values or headers."""
    return typer.Option(flag, metavar="ENCODING", help=f"Encoding of {what}.")


def key_separator_option(help_text: str) -> Any:  # noqa: ANN401  # as typer.Option itself
    """The option with the text between a key and its value."""
    return typer.Option("--key-separator", "-K", metavar="SEP", help=help_text)
