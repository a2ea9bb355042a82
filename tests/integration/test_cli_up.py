"""`headrace up`: its output, its shutdown, and its errors at start."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DEADLINE_S = 30
WELCOME = re.compile(r"clients connect to +(127\.0\.0\.1:(\d+))\n.*Ctrl-C stops it\.\n", re.DOTALL)
FULL_DISK = Path("/dev/full")

Up = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started = []

    def start(*options: str, program: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        command = program or (sys.executable, "-m", "headrace")
        process = subprocess.Popen(
            [*command, "up", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home")},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


def screen_of(process: subprocess.Popen[str]) -> str:
    """The output until the broker serves requests."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    return "".join(lines)


def port_of(process: subprocess.Popen[str]) -> int:
    found = WELCOME.search(screen_of(process))
    assert found is not None, process.communicate(timeout=DEADLINE_S)
    return int(found[2])


def failure_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, errors


def one_sentence(errors: str) -> bool:
    return errors.startswith("headrace: ") and errors.count("\n") == 1


def test_the_start_screen_shows_the_address_and_commands_to_try(up: Up, tmp_path: Path) -> None:
    process = up("--port", "0", "--data", str(tmp_path / "data"))
    screen = screen_of(process)
    found = WELCOME.search(screen)
    assert found is not None
    assert len(screen.splitlines()) <= 24
    assert str(tmp_path / "data") in screen
    assert screen.count(found[1]) >= 4  # every suggested command contains the address
    with socket.create_connection(("127.0.0.1", int(found[2])), timeout=DEADLINE_S):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_broker_cleanly(up: Up, tmp_path: Path, number: signal.Signals) -> None:
    process = up("--port", "0", "--data", str(tmp_path / "data"))
    port_of(process)
    process.send_signal(number)
    output, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, errors) == (0, "")
    assert "Stopping" in output
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_the_broker_at_once(
    up: Up, tmp_path: Path, number: signal.Signals
) -> None:
    # A slow stop: the client has sent requests and does not read the responses.
    process = up("--port", "0", "--data", str(tmp_path / "data"))
    with unread_answers(port_of(process)):
        process.send_signal(number)
        assert process.stdout is not None
        assert "Stopping" in process.stdout.readline()
        process.send_signal(number)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def unread_answers(port: int) -> socket.socket:
    """A connection that requests more than the socket buffers hold, and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.settimeout(1.0)
    api_versions = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    try:
        while True:
            client.sendall(api_versions * 1000)
    except TimeoutError:
        return client


def test_an_ephemeral_broker_keeps_no_data(up: Up, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    process = up("--port", "0", "--ephemeral")
    port_of(process)
    assert set(tmp_path.iterdir()) - before
    process.terminate()
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert set(tmp_path.iterdir()) == before


def test_the_default_data_directory_is_the_users(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    port_of(up("--port", "0"))
    home = tmp_path / "home" / "Library" / "Application Support"
    folder = home if sys.platform == "darwin" else tmp_path / "xdg"
    assert (folder / "headrace" / "meta.properties").exists()


def test_a_properties_file_and_set_both_work_and_set_wins(up: Up, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "# ours\nlisteners=PLAINTEXT://127.0.0.1:0\nnode.id=3\nlog.dirs=" + str(tmp_path / "kept")
    )
    process = up("--config", "server.properties", "--set", "node.id=7")
    port_of(process)
    assert "node.id=7" in (tmp_path / "kept" / "meta.properties").read_text()


def test_an_ignored_setting_is_a_warning(up: Up) -> None:
    process = up(
        "--port", "0", "--ephemeral", "--set", "num.network.threads=9", "--log-format=json"
    )
    port_of(process)
    process.terminate()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert "num.network.threads" in errors
    assert '"level": "WARN"' in errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "num.partitions=none"], ["num.partitions", "none"]),
        (["--set", "num.partitons=1"], ["num.partitons", "num.partitions"]),
        (["--config", "missing.properties"], ["missing.properties", "No such file"]),
        (["--host", "203.0.113.1"], ["203.0.113.1"]),
    ],
)
def test_an_invalid_setting_is_reported_in_one_sentence(
    up: Up, options: list[str], words: list[str]
) -> None:
    code, errors = failure_of(up("--port", "0", "--ephemeral", *options))
    assert code == 1
    assert one_sentence(errors), errors
    assert all(word in errors for word in words), errors


def test_a_port_in_use_is_reported_in_one_sentence_with_a_remedy(up: Up) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, errors = failure_of(up("--port", port, "--ephemeral"))
    assert code == 1
    assert one_sentence(errors), errors
    assert port in errors and "--port" in errors


def test_a_data_directory_in_use_is_reported_in_one_sentence(up: Up, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    port_of(up("--port", "0", "--data", data))
    code, errors = failure_of(up("--port", "0", "--data", data))
    assert code == 1
    assert one_sentence(errors), errors
    assert data in errors


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_an_invalid_data_directory_is_reported_in_one_sentence(
    up: Up, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("not a directory")
    code, errors = failure_of(up("--port", "0", "--data", place))
    assert code == 1
    assert one_sentence(errors), errors
    assert place in errors and "--data" in errors


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_data_directory_is_reported_in_one_sentence(up: Up, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    code, errors = failure_of(up("--port", "0", "--data", str(tmp_path / "data")))
    assert code == 1
    assert one_sentence(errors), errors


def test_damaged_metadata_is_reported_in_one_sentence_with_the_file(up: Up, tmp_path: Path) -> None:
    from headrace.broker.membership.standalone import METADATA_FILE

    data = tmp_path / "data"
    data.mkdir()
    (data / METADATA_FILE).write_bytes(b"not a database" * 1000)
    code, errors = failure_of(up("--port", "0", "--data", str(data)))
    assert code == 1
    assert one_sentence(errors), errors
    assert METADATA_FILE in errors


def test_a_mistake_on_the_command_line_is_a_usage_error(up: Up) -> None:
    code, errors = failure_of(up("--prot", "0"))
    assert code == 2
    assert "--prot" in errors and "Traceback" not in errors


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs /dev/full")
def test_the_broker_serves_when_its_output_is_closed(tmp_path: Path) -> None:
    with FULL_DISK.open("w") as full, socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
        chosen.close()
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "up", "--ephemeral", "--port", str(port)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": ""},
        )
    try:
        answered = wait_until_open(port, process)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert answered
    assert (process.returncode, errors) == (0, "")


def wait_until_open(port: int, process: subprocess.Popen[str]) -> bool:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S).close()
        except ConnectionRefusedError:
            continue
        return True
    return False


def test_version_names_headrace_python_and_the_loop() -> None:
    from headrace import __version__

    done = subprocess.run(
        [sys.executable, "-m", "headrace", "version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout.startswith(f"headrace {__version__} (")
    assert "ython" in done.stdout and ("uvloop" in done.stdout or "asyncio" in done.stdout)
