"""The commands and settings of docs/guide/security.md, run as a new user would."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.certificate_files import CertificateFiles
from headrace.cluster.java_properties import read_properties
from headrace.testing import Broker
from support.brokers.processes import free_port
from support.cli.command import Cli

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "security.md"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROPERTIES = re.compile(r"^( *)```properties\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
DATA = "~/.local/share/headrace"
DEADLINE_S = 60


def section(title: str) -> str:
    text = GUIDE.read_text()
    found = text[text.index(f"## {title}\n") + 3 :]
    return found[: found.find("\n## ")]


def lines(title: str) -> list[str]:
    return "".join(SHELL.findall(section(title))).splitlines()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The data directory of a broker that `headrace up --secure` has started."""
    port = ["--port", str(free_port()), "--data", str(tmp_path / "data")]
    first = shlex.split(lines("Ten minutes")[0])
    process = subprocess.Popen(
        [sys.executable, "-m", *first, *port],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if line.startswith("Ctrl-C"):
            break
    yield tmp_path / "data"
    process.terminate()
    rest, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    password = read_properties((tmp_path / "data/security/client.properties").read_text())[
        "sasl.password"
    ]
    assert password not in printed + rest


def test_ten_minutes(data: Path, tmp_path: Path) -> None:
    cli = Cli("", tmp_path)
    environment: dict[str, str] = {}
    password = ""
    for line in lines("Ten minutes")[1:]:
        words = shlex.split(line.replace(DATA, str(data)).rpartition("| ")[2])
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            environment[name] = value
            continue
        stdin = "hello\n" if line.startswith("echo") else f"{password}\n"
        ended = cli(*words[1:], env=environment, stdin=stdin)
        if words[1:3] in (["acl", "check"], ["topic", "create"]) and (
            "delete" in words or "alice" in words
        ):
            assert ended.code == 1, ended  # alice has no right
            continue
        assert ended.code == 0, ended
        if words[1:3] == ["user", "create"]:
            found = re.search(r"[A-Za-z0-9]{32}", ended.stdout)
            assert found is not None, ended
            password = found[0]
        if words[1] == "consume":
            assert ended.stdout == "hello\n"
    profile = (tmp_path / "headrace" / "config.toml").read_text()
    assert password in profile
    assert "admin" not in profile


def test_the_migration_keeps_clients_connected(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "certs")
    files.issue_server()
    ports = {"9092": free_port(), "9093": free_port()}
    old = {"bootstrap.servers": f"127.0.0.1:{ports['9092']}"}
    new = {
        "bootstrap.servers": f"127.0.0.1:{ports['9093']}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.ca),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": "secret",
    }
    steps = [
        read_properties(each)
        for _, each in PROPERTIES.findall(section("Migrate from plaintext without downtime"))
    ]
    assert len(steps) == 4
    settings: dict[str, str] = {}
    for number, step in enumerate(steps):
        settings |= {name: _here(value, files, ports) for name, value in step.items()}
        with Broker(data=tmp_path / "data", settings=settings):
            if number == 0:
                cli = Cli(old["bootstrap.servers"], tmp_path)
                for user in ("admin", "broker"):
                    assert cli("user", "create", user, stdin="secret\n").code == 0
                cli.ok("topic", "create", "orders")
                write(old)
            write(new)
            if number == 2:
                with pytest.raises(AssertionError):
                    write(old)


def _here(value: str, files: CertificateFiles, ports: Mapping[str, int]) -> str:
    value = value.replace("/etc/headrace/certs", str(files.folder)).replace('"..."', '"secret"')
    for port, ours in ports.items():
        value = value.replace(f"://:{port}", f"://127.0.0.1:{ours}")
    return value


def write(config: Mapping[str, str]) -> None:
    errors: list[object] = []
    producer = Producer({**config, "message.timeout.ms": DEADLINE_S * 1000, "log_level": 0})
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None]
