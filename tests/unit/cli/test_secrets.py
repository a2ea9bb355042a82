"""Secrets of client settings: in files, from commands, and never shown."""

import sys
from pathlib import Path

import pytest

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.secrets import is_readable_by_others, is_secret, resolve_secrets


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.password", "sasl.jaas.config", "ssl.key.pem", "ssl.keystore.key"),
        *("sasl.oauthbearer.client.secret", "ssl.keystore.password", "some.other.password"),
    ],
)
def test_a_secret_is_recognised_by_its_name(name: str) -> None:
    assert is_secret(name)
    assert not is_secret(f"{name}.file")


def test_a_secret_is_read_from_a_file_or_a_command(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush \n")
    found = resolve_secrets(
        {
            "sasl.password.file": str(tmp_path / "secret"),
            "ssl.key.password.command": f"{sys.executable} -c 'print(40 + 2)'",
            "log.file": "kept",
        }
    )
    assert found == {"sasl.password": "hush ", "ssl.key.password": "42", "log.file": "kept"}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("file", "/nowhere"),
        ("command", "/nowhere"),
        ("command", ""),
        ("command", "false"),
        ("command", "true"),
        ("command", "'"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named(place: str, value: str) -> None:
    with pytest.raises(CommandFailed, match=f"sasl.password.{place}"):
        resolve_secrets({f"sasl.password.{place}": value})


def test_a_file_that_others_can_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch()
    for mode, exposed in ((0o600, False), (0o640, True), (0o604, True)):
        path.chmod(mode)
        assert is_readable_by_others(path) is exposed
    assert not is_readable_by_others(tmp_path / "none")
