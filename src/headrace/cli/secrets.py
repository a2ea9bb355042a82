"""Secrets in client settings: which settings are secret, and where their values come from.

Any secret can be in a file or be printed by a command instead of standing in the profile:

    sasl.password.file = "/run/secrets/kafka"
    sasl.password.command = "pass show kafka/production"
"""

import shlex
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from headrace.cli.error_messages import usage
from headrace.client.login.security import SECRETS

FILE: Final = ".file"
COMMAND: Final = ".command"
COMMAND_TIMEOUT_S: Final = 60.0
_SECRET_WORDS: Final = (
    "password",
    "secret",
    "jaas.config",
    "token.value",
    "http.bearer.token",
    "passphrase",
)
_READABLE_BY_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH


def is_secret(name: str) -> bool:
    """Whether the value of this setting must not be shown. The place of a secret is none."""
    if name.endswith((FILE, COMMAND)):
        return False
    return name in SECRETS or any(word in name for word in _SECRET_WORDS)


def secrets_in(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if is_secret(name))


def resolve_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with the secrets that files and commands hold."""
    found = dict(settings)
    for name, place in settings.items():
        for suffix, read in ((FILE, _read_file), (COMMAND, _run_command)):
            setting = name.removesuffix(suffix)
            if setting != name and is_secret(setting):
                del found[name]
                found[setting] = read(name, place)
    return found


def is_readable_by_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & _READABLE_BY_OTHERS)
    except OSError:
        return False


def _read_file(name: str, place: str) -> str:
    try:
        return _secret_in(name, Path(place).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise usage(f"{name}: cannot read {place}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise usage(f"{name}: {place} is not UTF-8 text") from error


def _run_command(name: str, place: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # the user's own command, without a shell
            shlex.split(place), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S
        )
    except (OSError, ValueError, IndexError) as error:
        raise usage(f"{name}: cannot run {place!r}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise usage(f"{name}: {place!r} did not end in {COMMAND_TIMEOUT_S:g} s") from error
    if done.returncode:
        raise usage(f"{name}: {place!r} ended with exit code {done.returncode}: {done.stderr}")
    return _secret_in(name, done.stdout)


def _secret_in(name: str, text: str) -> str:
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise usage(f"{name} names an empty secret")
    return secret
