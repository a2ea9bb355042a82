"""The pytest plugin in separate runs: fixtures, options, workers and the guide's examples."""

import re
from pathlib import Path
from typing import cast

import pytest

from headrace.testing import Broker
from headrace.testing.factories import configured_port
from support.cli.pytest_runs import run_pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "guide" / "testing.md")
FILE = re.compile(r"^```python file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SUITE = """
import os
import socket
import sys

import pytest

from headrace.testing import factories

frozen_proc = factories.headrace_proc(settings={"num.partitions": "5"}, virtual_clock=True)
frozen = factories.headrace("frozen_proc")
elsewhere = factories.headrace("headrace_noproc")


def test_nothing_is_loaded_before_it_is_asked_for():
    assert "headrace.broker" not in sys.modules
    assert "headrace.client" not in sys.modules


@pytest.mark.parametrize("round", range(3))
def test_each_test_finds_a_clean_broker(headrace, round):
    assert headrace.topics() == {}
    assert headrace.groups() == {}
    headrace.produce("orders", "one", "two")
    assert headrace.topics() == {"orders": 3}  # headrace_settings
    headrace.commit("billing", {("orders", 0): 1})
    assert len(headrace.consume("orders", 2)) == 2


def test_the_broker_is_the_sessions(headrace, headrace_proc):
    assert headrace.bootstrap_servers == headrace_proc.bootstrap_servers
    host, port = headrace_proc.bootstrap_servers.split(":")
    socket.create_connection((host, int(port)), timeout=10).close()


def test_the_brokers_assertions_are_not_rewritten(headrace):
    loader = type(sys.modules["headrace.broker.node"].__loader__)
    assert loader.__name__ == "SourceFileLoader"


def test_factories_make_others(frozen, headrace):
    assert frozen.bootstrap_servers != headrace.bootstrap_servers
    frozen.produce("orders", "one")
    assert frozen.topics() == {"orders": 5}
    frozen.clock.advance(days=8)
    assert frozen.consume("orders") == []
    with pytest.raises(TypeError):
        headrace.clock


def test_a_broker_elsewhere_is_found(elsewhere, headrace_noproc):
    assert elsewhere.bootstrap_servers == os.environ["HEADRACE_BOOTSTRAP"]
    elsewhere.produce("outside", "x")
    assert "outside" in elsewhere.topics()
"""

INI = """[pytest]
headrace_settings =
    num.partitions=3
    auto.create.topics.enable = false
filterwarnings = error
"""

WORKERS = """
import os
import time
from pathlib import Path


def test_every_worker_has_a_broker(headrace):
    mine = Path(os.environ["SEEN"]) / os.environ["PYTEST_XDIST_WORKER"]
    mine.write_text(headrace.bootstrap_servers)
    # Both brokers must run at the same time: a port that is free again proves nothing.
    deadline = time.monotonic() + 60
    while len(list(mine.parent.iterdir())) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_fixtures_and_settings(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_suite.py").write_text(SUITE)
    with Broker() as external:
        output = run_pytest(
            tmp_path,
            "-p",
            "no:randomly",
            "-p",
            "no:xdist",
            "--headrace-port=0",
            HEADRACE_BOOTSTRAP=external.bootstrap_servers,
        )
        assert external.headrace.topics() == {}
    assert "8 passed" in output


@pytest.mark.slow
def test_every_worker_has_a_broker_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(WORKERS)
    seen = tmp_path / "seen"
    seen.mkdir()
    run_pytest(tmp_path, "-n", "2", "--dist=each", SEEN=str(seen))
    assert len({path.read_text() for path in seen.iterdir()}) == 2


@pytest.mark.slow
def test_the_examples_of_the_guide_pass(tmp_path: Path) -> None:
    examples = [found for page in PAGES for found in FILE.findall(page.read_text())]
    assert len(examples) >= 6
    assert len({name for name, _ in examples}) == len(examples)
    for name, code in examples:
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    output = run_pytest(tmp_path, "-p", "no:xdist")
    assert " passed" in output
    assert "skipped" not in output


def test_pytest_describes_each_fixture(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, "-p", "no:xdist", "--fixtures")
    for name in ("headrace", "headrace_proc", "headrace_cluster", "headrace_cluster_proc"):
        assert re.search(rf"^{name}\b.*\n    [A-Z]", output, re.MULTILINE), name
    own = output.partition("fixtures defined from headrace")[2].partition("fixtures defined from")[
        0
    ]
    assert own and "no docstring" not in own


class Configured:
    """The part of pytest's configuration that the plugin reads."""

    def __init__(self, option: int | None, ini: str) -> None:
        self._option = option
        self._ini = ini

    def getoption(self, name: str) -> int | None:
        assert name == "headrace_port"
        return self._option

    def getini(self, name: str) -> str:
        assert name == "headrace_port"
        return self._ini


@pytest.mark.parametrize(
    ("option", "ini", "worker", "port"),
    [
        (None, "0", "", 0),
        (None, "9100", "", 9100),
        (9200, "9100", "", 9200),
        (0, "9100", "", 0),
        (9200, "0", "gw0", 9200),
        (9200, "0", "gw3", 9203),
        (None, "0", "gw3", 0),
    ],
)
def test_the_port_is_the_options_or_the_inis_and_each_worker_has_the_next(
    monkeypatch: pytest.MonkeyPatch, option: int | None, ini: str, worker: str, port: int
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    assert configured_port(cast("pytest.Config", Configured(option, ini))) == port


def test_every_fixture_is_described_in_one_line(tmp_path: Path) -> None:
    shown = run_pytest(tmp_path, "--fixtures")
    for name in (
        "headrace_proc",
        "headrace_noproc",
        "headrace",
        "headrace_cluster_proc",
        "headrace_cluster",
    ):
        _, found, rest = shown.partition(f"\n{name} ")
        assert found, name
        assert "no docstring available" not in rest.splitlines()[1], name
