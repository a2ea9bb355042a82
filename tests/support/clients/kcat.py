"""kcat as a process: a common command-line client."""

import shutil
import subprocess
from typing import Final

import pytest

TIMEOUT_S: Final = 60

needs_kcat: Final = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt-get install kcat)"
)


def kcat(bootstrap: str, *arguments: str, stdin: str | None = None) -> str:
    """The output of kcat; on failure, the error contains its stderr."""
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
