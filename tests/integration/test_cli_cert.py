"""`headrace cert dev`: prints what to do next, and never overwrites unasked."""

from pathlib import Path

import pytest

from support.cli.command import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli("", tmp_path)


def test_certificates_are_created_once_and_replaced_only_with_renew(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "certs"
    printed = cli.ok("cert", "dev", str(folder), "--host", "kafka.example.com", "--client", "alice")
    for name in ("ca.pem", "server.keystore.pem", "alice.p12"):
        assert str(folder / name) in printed
    assert "PRIVATE" not in printed
    assert (folder / "store.password").read_text().strip() not in printed
    before = (folder / "server.key").read_bytes()
    for words in ((), ("--client", "alice"), ("--host", "other")):
        refused = cli("cert", "dev", str(folder), *words)
        assert refused.code == 2, refused
        assert "--renew" in refused.stderr
    cli.ok("cert", "dev", str(folder), "--client", "bob")
    assert (folder / "server.key").read_bytes() == before
    cli.ok("cert", "dev", str(folder), "--renew")
    assert (folder / "server.key").read_bytes() != before


def test_a_directory_that_cannot_be_written_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = cli("cert", "dev", str(tmp_path / "file" / "certs"))
    assert failed.code == 1
    assert str(tmp_path / "file") in failed.stderr
