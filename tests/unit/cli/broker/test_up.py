"""What the options of `headrace up` mean as settings, and which of them wins."""

from pathlib import Path

import pytest

from headrace.cli.broker.options import UpOptions
from headrace.cli.broker.up import BadCommand, data_folder, settings_of


def static(options: UpOptions, temporary: Path | None = None) -> dict[str, str]:
    return dict(settings_of(options, temporary).static)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text("listeners=PLAINTEXT://127.0.0.1:7000\nlog.dirs=/from/file\nnum.partitions=3\n")
    return path


def test_without_options_it_listens_on_kafkas_port_of_this_machine_only() -> None:
    assert static(UpOptions())["listeners"] == "PLAINTEXT://127.0.0.1:9092"


def test_the_file_beats_the_defaults(config: Path) -> None:
    values = static(UpOptions(config=config))
    assert values["listeners"] == "PLAINTEXT://127.0.0.1:7000"
    assert values["log.dirs"] == "/from/file"
    assert values["num.partitions"] == "3"


def test_set_beats_the_file_and_may_hold_equal_signs(config: Path) -> None:
    values = static(UpOptions(config=config, set=("num.partitions=4", "broker.rack=a=b")))
    assert (values["num.partitions"], values["broker.rack"]) == ("4", "a=b")


def test_the_last_of_two_sets_counts() -> None:
    assert static(UpOptions(set=("num.partitions=4", "num.partitions=5")))["num.partitions"] == "5"


def test_options_with_a_name_of_their_own_beat_the_file_and_set(
    config: Path, tmp_path: Path
) -> None:
    options = UpOptions(config=config, port=0, data=tmp_path, set=("log.dir=/from/set",))
    values = static(options)
    assert values["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert values["log.dirs"] == str(tmp_path)
    assert "log.dir" not in values


def test_an_ephemeral_broker_keeps_nothing_in_the_directory_of_the_file(
    config: Path, tmp_path: Path
) -> None:
    values = static(UpOptions(config=config, ephemeral=True), tmp_path)
    assert values["log.dirs"] == str(tmp_path)


def test_an_ipv6_host_is_bracketed() -> None:
    assert static(UpOptions(host="::1"))["listeners"] == "PLAINTEXT://[::1]:9092"


def test_the_data_folder_follows_the_customs_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert data_folder() == tmp_path / ".local" / "share" / "headrace"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/to/be/ignored")
    assert data_folder() == tmp_path / ".local" / "share" / "headrace"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert data_folder() == tmp_path / "xdg" / "headrace"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_folder() == tmp_path / "Library" / "Application Support" / "headrace"


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\xff\xfe", "UTF-8"), (b"name=\\u12", "server.properties")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    with pytest.raises(BadCommand, match=reason):
        settings_of(UpOptions(config=path), None)


def test_http_is_a_port_on_this_machine_unless_it_has_a_host() -> None:
    assert static(UpOptions(http="9644"))["headrace.http.listener"] == "http://127.0.0.1:9644"
    assert static(UpOptions(http="[::1]:0"))["headrace.http.listener"] == "http://[::1]:0"
    assert "headrace.http.listener" not in static(UpOptions())
