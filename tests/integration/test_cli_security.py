"""Every command connects with every mechanism from one profile."""

from pathlib import Path

import pytest

from headrace.local_security import properties_text
from support.cli.command import Cli
from support.security.secured_brokers import MECHANISMS, secured_broker


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_commands_work_with_one_profile(mechanism: str, tmp_path: Path) -> None:
    with secured_broker(mechanism, tmp_path) as (broker, settings):
        profile = tmp_path / "client.properties"
        profile.touch(0o600)
        profile.write_text(properties_text(settings))
        cli = Cli("", tmp_path)
        named = ("--profile", str(profile))
        cli.ok("topic", "create", "orders", *named)  # Headrace's client
        cli.ok("produce", "orders", "-v", "hello", *named)  # librdkafka
        read = cli("consume", "orders", "-e", *named)
        assert (read.code, read.stdout, read.stderr) == (0, "hello\n", "")
        assert "orders" in cli.ok("topic", "list", *named)
        assert broker.headrace.consume("orders", 1)[0].value == b"hello"


def test_a_wrong_password_is_one_sentence(tmp_path: Path) -> None:
    with secured_broker("SCRAM", tmp_path) as (_, settings):
        wrong = [f"-X{name}={value}" for name, value in settings.items()]
        wrong.append("-Xsasl.password=guess")
        for words in (("topic", "list"), ("produce", "orders", "-v", "x")):
            ended = Cli("", tmp_path)(*words, *wrong)
            assert ended.code == 1
            assert "check the user name and the password" in ended.stderr
            assert "guess" not in ended.stderr
