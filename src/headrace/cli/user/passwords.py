"""Where the password of a user comes from: a file, a prompt, a pipe, or a generator.

A password is never an argument: other users of the machine can read those.
"""

import secrets
import string
import sys
import unicodedata
from pathlib import Path
from typing import Final

import typer

from headrace.cli.error_messages import usage

GENERATED_CHARS: Final = 32
_ALPHABET: Final = string.ascii_letters + string.digits
_MAX_BYTES: Final = 4096


def new_password(file: Path | None, *, generate: bool) -> str:
    """The password for a new credential; asks for it on a terminal, else reads it from stdin."""
    if file is not None and generate:
        raise usage("--password-file and --generate exclude each other")
    if generate:
        return "".join(secrets.choice(_ALPHABET) for _ in range(GENERATED_CHARS))
    if file is not None:
        return _checked(_read(file), str(file))
    if sys.stdin.isatty():
        typed = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return _checked(str(typed), "the prompt")
    return _checked(sys.stdin.readline(), "stdin")


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MAX_BYTES + 1).decode()
    except OSError as error:
        raise usage(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise usage(f"{file} is not UTF-8 text") from error


def _checked(text: str, place: str) -> str:
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise usage(f"no password in {place}; use --password-file, --generate, or a terminal")
    if "\n" in password or len(password) > _MAX_BYTES:
        raise usage(f"the password in {place} must be one line of at most {_MAX_BYTES} bytes")
    if unicodedata.normalize("NFKC", password) != password:
        # Some clients send such a password as it is, others in its normal form.
        raise usage("the password has characters that clients encode differently; use others")
    return password
