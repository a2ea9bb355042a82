"""The wheel: its contents and metadata, and a broker that runs from it in a clean environment."""

import json
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from headrace import __version__
from support.brokers.processes import BrokerProcess

ROOT = Path(__file__).parents[2]
PACKAGES = ("headrace", "pyspark_headrace")
TIMEOUT_S = 120


def run(*words: str | Path, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"headrace-{__version__}.dist-info/METADATA").decode()
    return HeaderParser().parsestr(text)


def test_the_wheel_has_each_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    """Modules and data files: templates, scripts, styles, dashboards, type information."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    in_tree = {
        path.relative_to(ROOT / "src").as_posix()
        for package in PACKAGES
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == in_tree
    assert "headrace/py.typed" in packed


def test_the_metadata_names_the_license_the_commands_and_each_extra(
    wheel: Path, metadata: Message
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (metadata["Name"], metadata["Version"]) == ("headrace", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == project["requires-python"]
    extras = metadata.get_all("Provides-Extra") or []
    assert sorted(extras) == sorted(project["optional-dependencies"])
    required = [each for each in metadata.get_all("Requires-Dist") or [] if "extra ==" not in each]
    assert len(required) == len(project["dependencies"])
    info = f"headrace-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        bill = json.loads(archive.read(f"{info}/sboms/headrace.cdx.json"))
    assert f"{info}/licenses/LICENSE" in names
    assert "headrace = headrace.cli:main" in entry_points
    assert "headrace = headrace.testing.plugin" in entry_points
    assert bill["metadata"]["component"]["version"] == __version__


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and its pinned dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
    pins = ["--require-hashes", "--requirement", str(ROOT / "requirements" / "runtime.txt")]
    # The bootstrap left the pinned archives in uv's cache. Without them they are downloaded.
    cached = subprocess.run([*uv, "--offline", *pins], capture_output=True, timeout=TIMEOUT_S)
    if cached.returncode:
        run(*uv, *pins)
    run(*uv, "--offline", "--no-deps", wheel)
    return folder


class InstalledBroker(BrokerProcess):
    """`headrace up` from an environment of its own."""

    def __init__(self, home: Path, environment: Path) -> None:
        super().__init__(home, ephemeral=True)
        self._program = environment / "bin" / "headrace"

    def command(self) -> list[str]:
        return [str(self._program), *super().command()[3:]]


@pytest.fixture(scope="module")
def installed(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with InstalledBroker(tmp_path_factory.mktemp("installed"), environment) as broker:
        yield broker.bootstrap_servers


def test_an_installed_broker_starts_and_serves(
    installed: str, environment: Path, tmp_path: Path
) -> None:
    """The command of the environment produces and consumes; nothing comes from the checkout."""

    def headrace(*words: str, options: Sequence[str] = (), stdin: str = "") -> str:
        command = [environment / "bin" / "headrace", *words, "-b", installed, *options]
        return run(
            *command,
            input=stdin,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )

    headrace("produce", "greetings", stdin="hello\n")
    assert headrace("consume", "greetings", "-e", "-o", "beginning") == "hello\n"
    where = run(
        environment / "bin" / "python",
        "-c",
        "import headrace; print(headrace.__file__)",
        cwd=tmp_path,
    )
    assert where.startswith(str(environment))
