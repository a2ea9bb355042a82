"""Fixtures for tests with a real broker.

`bootstrap` is one node that the tests of a run share; each test makes topics of its own. It is
`headrace.testing.Broker`, or, for finding out what Apache Kafka does, whatever listens at
HEADRACE_TEST_BOOTSTRAP. Tests that need settings, a process to measure or one to kill ask for
`spawn`.
"""

import gc
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.brokers.bootstrap import REFERENCE, serving
from support.brokers.processes import BrokerProcess, Spawn
from support.wire.connection import Wire
from support.wire.topics import MakeTopic, create_topic

if TYPE_CHECKING:
    from support.security.certificates import CertificateAuthority

# How long one example takes says more about the machine than about the code.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

# A run in the background of a script, or under nohup, starts with these signals ignored. Commands
# that tests start would inherit that, and Ctrl-C would not end them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


TESTS = Path(__file__).parent
# `script/test --quick` runs the tests in these folders, except those marked `slow`.
QUICK_FOLDERS = (TESTS / "unit", TESTS / "wire")
# In this order: a worker that began a long test last would keep the run waiting. The tests on Spark
# are the longest chain, because they share a session.
FOLDERS = ("pipeline", "chaos", "integration", "scenarios", "property", "wire", "unit")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not import the other folders for `-m "quick and ..."`: that takes several seconds."""
    selects_quick = config.option.markexpr.startswith("quick")
    if not selects_quick or TESTS not in collection_path.parents:
        return None
    folders = {collection_path, *collection_path.parents}
    return None if folders.intersection(QUICK_FOLDERS) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in QUICK_FOLDERS):
            item.add_marker(pytest.mark.quick)
    items.sort(key=lambda item: _folder_rank(item.path))


def _folder_rank(path: Path) -> int:
    folder = path.relative_to(TESTS).parts[0]
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


def pytest_collection() -> None:
    gc.disable()  # collected tests stay, so looking at them again and again finds nothing


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `--dist loadfile`, a worker gets one file after another, in the order of `FOLDERS`.

    So the fixtures of a module are made once. All tests on Spark go to one worker, where they share
    a session. A file of tests/chaos has long tests: each of them may go to a worker of its own.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InOrder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = nodeid.split("/", 2)[1]
            if folder == "pipeline":
                return folder
            return nodeid if folder == "chaos" else super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # not by the number of tests
    return InOrder(config, log)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with serving() as servers:
        yield servers


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as connection:
        yield connection


@pytest.fixture
def connect(bootstrap: str) -> Iterator[Callable[[], Wire]]:
    """Further connections to the shared broker, closed with the test."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(Wire(bootstrap))


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"t-{uuid.uuid4().hex}"


@pytest.fixture
def make_topic(wire: Wire, new_name: Callable[[], str]) -> MakeTopic:
    def make(partitions: int = 1, configs: Mapping[str, object] | None = None) -> str:
        name = new_name()
        create_topic(wire, name, partitions, configs)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    if REFERENCE:
        pytest.skip("needs a Headrace process of its own")
    with ExitStack() as started:

        def start(
            settings: Mapping[str, object] | None = None, *, ephemeral: bool = True
        ) -> BrokerProcess:
            home = tmp_path / f"broker-{uuid.uuid4().hex[:8]}"
            broker = BrokerProcess(home, settings=settings, ephemeral=ephemeral)
            return started.enter_context(broker)

        yield start


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> "CertificateAuthority":
    """The certificate authority that the tests of a run share."""
    from support.security.certificates import CertificateAuthority

    return CertificateAuthority(tmp_path_factory.mktemp("certificates"))
