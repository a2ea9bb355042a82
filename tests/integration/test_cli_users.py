"""`headrace user` against a real broker, and without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.testing
from headrace.operations.user_passwords import GENERATED_CHARS
from headrace.security.sasl.scram_credential import ScramMechanism
from support.cli.command import Cli
from support.security.sasl_wire import log_in_with_scram, sasl_settings
from support.wire.connection import Wire

SHA_512 = "SCRAM-SHA-512"
ADMIN = {
    "HEADRACE_SASL_USERNAME": "admin",
    "HEADRACE_SASL_PASSWORD": "admin-secret",
}
LOGIN = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN")


@pytest.fixture(scope="module")
def broker() -> Iterator[headrace.testing.Broker]:
    with headrace.testing.Broker(settings=sasl_settings("SCRAM-SHA-256", SHA_512)) as running:
        yield running


class UserCli:
    """Runs `headrace user` as an administrator."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli

    def __call__(self, *words: str, stdin: str | None = None, code: int = 0) -> str:
        ended = self._cli("user", *words, *LOGIN, stdin=stdin, env=ADMIN)
        assert ended.code == code, ended
        return ended.stdout + ended.stderr

    def facts(self, *words: str) -> object:
        return self._cli("user", *words, "--format", "json", *LOGIN, env=ADMIN).facts


@pytest.fixture
def user(broker: headrace.testing.Broker, tmp_path: Path) -> UserCli:
    return UserCli(Cli(broker.bootstrap_servers, tmp_path))


def can_log_in(broker: headrace.testing.Broker, name: str, password: str) -> bool:
    with Wire(broker.bootstrap_servers) as wire:
        answer = log_in_with_scram(wire, name, password, ScramMechanism.SCRAM_SHA_512)
        return answer.error_code == 0


def test_a_user_is_created_with_a_password_from_stdin(
    broker: headrace.testing.Broker, user: UserCli
) -> None:
    told = user("create", "ann", stdin="ann-secret\n")
    assert told == f"created user ann ({SHA_512})\n"
    assert can_log_in(broker, "ann", "ann-secret")
    assert "exists already" in user("create", "ann", stdin="x\n", code=1)
    assert can_log_in(broker, "ann", "ann-secret")


def test_a_password_from_a_file_is_never_shown(
    broker: headrace.testing.Broker, user: UserCli, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    path.write_text("file-secret\n")
    told = user("create", "ben", "--password-file", str(path))
    assert "file-secret" not in told
    assert can_log_in(broker, "ben", "file-secret")


def test_a_generated_password_is_shown_once(broker: headrace.testing.Broker, user: UserCli) -> None:
    facts = user.facts("create", "cat", "--generate", "--iterations", "4096")
    assert isinstance(facts, dict)
    assert len(facts["password"]) == GENERATED_CHARS
    assert can_log_in(broker, "cat", facts["password"])
    assert facts["password"] not in user("list")
    assert {"user": "cat", "mechanism": SHA_512, "iterations": 4096} in user.facts("list")  # type: ignore[operator]


def test_a_password_is_changed(broker: headrace.testing.Broker, user: UserCli) -> None:
    user("create", "dan", stdin="first\n")
    user("passwd", "dan", stdin="second\n")
    assert not can_log_in(broker, "dan", "first")
    assert can_log_in(broker, "dan", "second")
    assert "no user 'dann'. Did you mean 'dan'?" in user("passwd", "dann", stdin="x\n", code=4)


def test_a_user_with_two_mechanisms_names_one(user: UserCli) -> None:
    user("create", "eli", stdin="first\n")
    user("create", "eli", "--mechanism", "SCRAM-SHA-256", stdin="first\n")
    assert "choose one with --mechanism" in user("passwd", "eli", stdin="x\n", code=2)
    user("passwd", "eli", "--mechanism", "scram-sha-256", stdin="x\n")
    user("delete", "eli", "--mechanism", "SCRAM-SHA-256", "--execute")
    assert {each["mechanism"] for each in user.facts("list") if each["user"] == "eli"} == {SHA_512}  # type: ignore[attr-defined]


def test_a_user_is_deleted_only_with_execute(
    broker: headrace.testing.Broker, user: UserCli
) -> None:
    user("create", "fay", stdin="fay-secret\n")
    assert "Add --execute to delete user fay" in user("delete", "fay")
    assert can_log_in(broker, "fay", "fay-secret")
    user("delete", "fay", "--execute")
    assert not can_log_in(broker, "fay", "fay-secret")
    assert "no user 'fay'" in user("delete", "fay", "--execute", code=4)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("create", "gus"), "\n"),
        (("create", "gus"), ""),
        (("create", "gus", "--mechanism", "PLAIN"), "x\n"),
        (("create", "gus", "--iterations", "4095"), "x\n"),
        (("create", "gus", "--iterations", "16385"), "x\n"),
        (("create", "gus", "--generate", "--password-file", "f"), "x\n"),
        (("create", "gus", "--password-file", "/does/not/exist"), ""),
        (("create", "gus"), "ligature ﬁ\n"),
        (("create", ""), "x\n"),
    ],
)
def test_invalid_requests_are_usage_errors(
    user: UserCli, words: tuple[str, ...], stdin: str
) -> None:
    user(*words, stdin=stdin, code=2)
    assert "gus" not in user("list")


def test_the_first_user_is_created_before_the_first_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    offline = Cli("127.0.0.1:1", tmp_path)
    created = offline("user", "create", "root", "--data", str(data), stdin="root-secret\n")
    assert created.code == 0, created
    again = offline("user", "create", "root", "--data", str(data), stdin="other\n")
    assert again.code == 1
    assert "exists already" in again.stderr
    settings = {**sasl_settings(SHA_512), "sasl.enabled.mechanisms": SHA_512}
    with headrace.testing.Broker(settings=settings, data=data) as broker:
        assert can_log_in(broker, "root", "root-secret")
        busy = offline("user", "create", "late", "--data", str(data), stdin="x\n")
        assert busy.code == 1
        assert "without --data" in busy.stderr
