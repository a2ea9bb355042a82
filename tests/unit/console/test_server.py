"""The server refuses files that cannot serve HTTPS, and names them."""

import re
from pathlib import Path

import pytest

from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings, InvalidConsoleSetting, ListenAddress


def start(certificate: Path, key: Path | None = None) -> None:
    ConsoleServer(
        ConsoleSettings(
            {"bootstrap.servers": "127.0.0.1:1"},
            ListenAddress("127.0.0.1", 0),
            certificate=str(certificate),
            key=None if key is None else str(key),
        )
    )


def test_a_missing_file_is_named_with_its_option(tmp_path: Path) -> None:
    missing = tmp_path / "cert.pem"
    with pytest.raises(
        InvalidConsoleSetting, match=f"--tls-cert {re.escape(str(missing))}: No such file"
    ):
        start(missing)
    missing.write_text("x")
    with pytest.raises(InvalidConsoleSetting, match=r"--tls-key .*key\.pem: No such file"):
        start(missing, tmp_path / "key.pem")


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "cert.pem"
    wrong.write_text("no certificate")
    with pytest.raises(InvalidConsoleSetting, match=r"cert\.pem .* in PEM format"):
        start(wrong)
