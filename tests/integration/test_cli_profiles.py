"""`headrace profile`: profiles are created and shown without printing their secrets."""

import stat
import tomllib
from pathlib import Path

import pytest

from support.cli.command import Cli


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli("", home)


SCRAM = ("security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512", "sasl.username=me")


def test_a_created_profile_is_listed_and_shown_without_its_password(cli: Cli, home: Path) -> None:
    made = cli("profile", "create", "prod", "-b", "kafka:9093", *SCRAM, stdin='a "b\\\n')
    assert made.code == 0, made
    path = home / "headrace" / "config.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    table = tomllib.loads(path.read_text())["profiles"]["prod"]
    assert table["sasl"]["password"] == 'a "b\\'
    assert "kafka:9093" in cli.ok("profile", "list")
    shown = cli.ok("profile", "show", "--profile", "prod")
    assert "(hidden)" in shown
    assert 'a "b' not in shown


def test_the_rest_of_the_file_stays_as_it_is(cli: Cli, home: Path) -> None:
    path = home / "headrace" / "config.toml"
    path.parent.mkdir()
    before = '# mine\n[profiles.a]\nbootstrap.servers = "a:1"\n'
    path.write_text(before)
    properties = home / "client.properties"
    properties.write_text("bootstrap.servers=b:1\nsasl.password=hush\n")
    assert cli("profile", "create", "b", "--from", str(properties), "--default").code == 0
    assert before in path.read_text()
    listed = cli.ok("profile", "list")
    assert "a:1" in listed
    assert "b:1" in listed
    assert cli("profile", "create", "b").code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("prod", *SCRAM, "sasl.password=hush"), "sasl.password.file"),
        (("prod", "security.protocol=TLS"), "security.protocol"),
        (("a b",), "letters"),
        (("prod", "nonsense"), "NAME=VALUE"),
    ],
)
def test_an_invalid_profile_is_refused(
    cli: Cli, home: Path, words: tuple[str, ...], message: str
) -> None:
    ended = cli("profile", "create", *words)
    assert ended.code == 2
    assert message in ended.stderr.replace("SETTING=VALUE", "NAME=VALUE")
    assert "hush" not in ended.stderr
    assert not (home / "headrace" / "config.toml").exists()


def test_exposed_secrets_are_reported(cli: Cli, home: Path) -> None:
    properties = home / "client.properties"
    properties.write_text("sasl.password=hush\n")
    properties.chmod(0o644)
    shown = cli("profile", "show", "--profile", str(properties))
    assert f"chmod 600 {properties}" in shown.stderr
    visible = cli("profile", "show", "-X", "sasl.password=hush")
    assert "HEADRACE_SASL_PASSWORD" in visible.stderr
    assert "hush" not in shown.stdout + shown.stderr + visible.stdout + visible.stderr
