"""Where the password of a user comes from: a file, a prompt, a pipe, or a generator.

A password is never an argument: other users of the machine can read those.
"""

import sys
from pathlib import Path

import typer

from headrace.cli.error_messages import usage
from headrace.operations.user_passwords import (
    MAX_PASSWORD_BYTES,
    generate_password,
    password_problem,
)


def new_password(file: Path | None, *, generate: bool) -> str:
    """The password for a new credential; asks for it on a terminal, else reads it from stdin."""
    if file is not None and generate:
        raise usage("--password-file and --generate exclude each other")
    if generate:
        return generate_password()
    if file is not None:
        return _checked(_read(file), str(file))
    if sys.stdin.isatty():
        typed = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return _checked(str(typed), "the prompt")
    return _checked(sys.stdin.readline(), "stdin")


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_PASSWORD_BYTES + 1).decode()
    except OSError as error:
        raise usage(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise usage(f"{file} is not UTF-8 text") from error


def _checked(text: str, place: str) -> str:
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise usage(f"no password in {place}; use --password-file, --generate, or a terminal")
    problem = password_problem(password)
    if problem is not None:
        raise usage(f"the password in {place} {problem}")
    return password
