"""Clients written in Go and JavaScript, each a small program that prints "ok"."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 600
RUN_TIMEOUT_S = 300

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)


def run(command: list[str], where: Path, timeout_s: float) -> str:
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_franz_go(bootstrap: str, name: str, tmp_path: Path) -> None:
    program = tmp_path / "client"
    run(["go", "build", "-o", str(program), "."], HERE / "go", BUILD_TIMEOUT_S)
    assert run([str(program), bootstrap, name], tmp_path, RUN_TIMEOUT_S).strip() == "ok"


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node.js and npm")
def test_kafkajs(bootstrap: str, name: str, tmp_path: Path) -> None:
    place = tmp_path / "node"
    shutil.copytree(HERE / "node", place, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    run(install, place, BUILD_TIMEOUT_S)
    out = run(["node", "client.js", bootstrap, name], place, RUN_TIMEOUT_S)
    assert out.strip().endswith("ok")
