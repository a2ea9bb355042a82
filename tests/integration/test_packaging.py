"""packaging/: names of settings, options, ports and files in it exist, and agree with each other.

tests/conformance/test_helm_chart.py renders the Helm chart. docs/guide/deployment.md says what else
was tried.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from headrace import __version__
from headrace.cli.broker.options import parse_start
from headrace.cluster.configs.catalog import BROKER
from headrace.cluster.java_properties import read_properties
from headrace.cluster.settings import BrokerSettings

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
CHART = PACKAGING / "helm" / "headrace"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
INSTRUCTION = re.compile(r"^([A-Z]+) ((?:.*\\\n)*.*)$", re.MULTILINE)
EXEC_FORM = {"RUN", "CMD", "ENTRYPOINT", "VOLUME"}
NOT_ROOT = 10001
MAX_EXPOSURE = 20  # systemd-analyze shows it as 2.0, of 10


def containerfile() -> list[tuple[str, str]]:
    text = (PACKAGING / "Containerfile").read_text()
    return [
        (name, rest.replace("\\\n", " ").strip())
        for name, rest in INSTRUCTION.findall(re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    ]


def only(name: str) -> str:
    (found,) = [rest for each, rest in containerfile() if each == name]
    return found


def image_settings() -> dict[str, str]:
    return read_properties((PACKAGING / "server.properties").read_text())


def stop_timeout_s() -> float:
    return int(BrokerSettings.parse({}).integer("headrace.stop.timeout.ms")) / 1000


# --- the image ---------------------------------------------------------------------------------


def test_the_image_needs_no_shell_and_no_root() -> None:
    """Each command is a list of words, and the user is a number."""
    for name, rest in containerfile():
        if name in EXEC_FORM:
            assert isinstance(json.loads(rest), list), rest
    assert only("USER") == f"{NOT_ROOT}:{NOT_ROOT}"
    probe = only("HEALTHCHECK").partition(" CMD ")[2]
    assert "/livez" in json.loads(probe)[-1]
    assert only("STOPSIGNAL") == "SIGTERM"


def test_the_image_starts_a_broker_with_its_settings_file() -> None:
    program, command = json.loads(only("ENTRYPOINT")), json.loads(only("CMD"))
    assert program == ["headrace"]
    assert command[:2] == ["broker", "start"]
    options = parse_start(command[2:])
    assert options is not None
    copied = {rest.split()[-1] for name, rest in containerfile() if name == "COPY"}
    assert str(options.config) in copied


def test_the_settings_of_the_image_are_valid_and_its_ports_are_exposed() -> None:
    found = image_settings()
    BrokerSettings.parse(found)
    ports = {found[name].rpartition(":")[2] for name in ("listeners", "headrace.http.listener")}
    assert set(only("EXPOSE").split()) == ports
    probe = only("HEALTHCHECK")
    assert f":{found['headrace.http.listener'].rpartition(':')[2]}/" in probe
    assert found["log.dirs"].startswith(json.loads(only("VOLUME"))[0] + "/")


def test_the_image_is_built_from_files_that_exist_and_are_in_the_build_context() -> None:
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    copied = [
        source
        for name, rest in containerfile()
        if name == "COPY" and "--from=" not in rest
        for source in rest.split()[:-1]
    ]
    assert sorted(copied) == sorted(allowed)
    assert not [source for source in copied if not (ROOT / source).exists()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [project["project"]["readme"], *project["project"]["license-files"]]
    assert {*needed, *wheel["sbom-files"]} <= set(copied)


def test_the_image_has_the_versions_that_the_tests_use() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text()
        return set(re.findall(r"^[\w.-]+==[\w.!+-]+", text, re.MULTILINE))

    assert any(pin.startswith("kazoo==") for pin in pins("image.txt"))
    assert pins("image.txt") <= pins("dev.txt")


# --- systemd -----------------------------------------------------------------------------------


def unit_settings(unit: Path) -> dict[str, str]:
    lines = [line for line in unit.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_broker_that_notifies_and_has_time_to_stop(unit: Path) -> None:
    found = unit_settings(unit)
    words = shlex.split(found["ExecStart"])
    assert words[0].endswith("/headrace")
    assert words[1:3] == ["broker", "start"]
    options = parse_start(words[3:])
    assert options is not None
    assert str(options.config).startswith(f"/etc/{found['ConfigurationDirectory']}/")
    assert found["Type"] == "notify"
    assert found["RestartPreventExitStatus"] == "2"
    assert int(found["TimeoutStopSec"]) > 2 * stop_timeout_s()
    assert found["User"] not in ("", "root")


def test_both_units_differ_only_in_the_name_of_the_instance() -> None:
    one, many = (unit_settings(unit) for unit in UNITS)
    plain = {name: value.replace("/%i", "").replace(" %i", "") for name, value in many.items()}
    assert plain == one


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit_and_rates_its_exposure_low(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/headrace/bin/headrace", sys.executable))
    for words in (["verify"], ["security", "--offline=true", f"--threshold={MAX_EXPOSURE}"]):
        done = subprocess.run(
            ["systemd-analyze", "--no-pager", *words, copy], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr


# --- Helm --------------------------------------------------------------------------------------


def values() -> dict[str, object]:
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    assert isinstance(found, dict)
    return found


def templates() -> str:
    return "\n".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_the_schema_knows_each_value_and_each_value_is_used() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(schema) - {"global"} == set(values())
    text = templates()
    assert not [name for name in values() if f".Values.{name}" not in text]


def test_the_chart_names_settings_that_exist_and_the_ports_of_the_image() -> None:
    found = values()
    written = set(re.findall(r"^([a-z][a-z.]+)=", templates(), re.MULTILINE))
    assert len(written) > 5
    assert not [name for name in (*written, *found["config"]) if name not in BROKER]  # type: ignore[misc]
    ports = [str(found[each]["port"]) for each in ("listener", "http")]  # type: ignore[index]
    assert only("EXPOSE").split() == ports


def test_the_pod_is_the_user_of_the_image_and_has_time_to_stop() -> None:
    assert f"runAsUser: {NOT_ROOT}" in templates()
    grace = values()["terminationGracePeriodSeconds"]
    assert isinstance(grace, int)
    assert grace > 2 * stop_timeout_s()
    arguments = re.findall(r"^ +- (--[a-z-]+=\S+)$", templates(), re.MULTILINE)
    assert parse_start([re.sub(r"\{\{.*?\}\}", "x", each) for each in arguments]) is not None
