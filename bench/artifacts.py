"""What a benchmark needs besides Python: Kafka's jars and the compiled load generator.

Both are stored in the user's cache directory and created once. They are built beside their final
path and renamed, so an incomplete one never appears there.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KAFKA_VERSION = "4.3.1"
# The last release line that can run with ZooKeeper.
KAFKA_WITH_ZOOKEEPER_VERSION = "3.9.2"
BENCH = Path(__file__).parent
MAVEN_TIMEOUT_S = 900
COMPILE_TIMEOUT_S = 120


class MissingToolError(Exception):
    """script/bench could not install a tool; the message says what to do."""


class BusyError(Exception):
    """Another benchmark is running on this machine."""


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headrace"


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """The directory of Apache Kafka's jars, downloaded with Maven on the first call."""
    jars = cache_directory() / f"kafka-{version}"
    if jars.is_dir():
        return jars
    require("mvn", "Maven is needed to fetch Apache Kafka: install it (Debian: maven).")
    with staging(jars) as fresh:
        run(
            [
                *("mvn", "--batch-mode", "--quiet", "--file", str(BENCH / "kafka" / "pom.xml")),
                f"-Dkafka.version={version}",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={fresh}",
            ],
            MAVEN_TIMEOUT_S,
        )
        fresh.rename(jars)
    return jars


def mirror_maker_jars(version: str = KAFKA_VERSION) -> Path:
    """The directory of MirrorMaker 2's own jars, which run with those of `kafka_jars`."""
    jars = cache_directory() / f"kafka-mirror-{version}"
    if jars.is_dir():
        return jars
    require("mvn", "Maven is needed to fetch MirrorMaker: install it (Debian: maven).")
    with staging(jars) as fresh:
        for artifact in ("connect-mirror", "connect-mirror-client"):
            run(
                [
                    *("mvn", "--batch-mode", "--quiet", "dependency:copy"),
                    f"-Dartifact=org.apache.kafka:{artifact}:{version}",
                    f"-DoutputDirectory={fresh}",
                ],
                MAVEN_TIMEOUT_S,
            )
        fresh.rename(jars)
    return jars


def load_generator() -> Path:
    """The compiled load generator; its name contains a hash of its sources."""
    sources = sorted((BENCH / "load").glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    program = cache_directory() / f"load-{digest}"
    if program.exists():
        return program
    require("gcc", "A C compiler is needed for the load generator: install it (Debian: gcc).")
    flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    with staging(program) as fresh:
        fresh.mkdir()
        built = fresh / "load"
        files = [str(path) for path in sources if path.suffix == ".c"]
        run(
            ["gcc", *flags, *files, "-o", str(built), "-lrdkafka", "-lpthread"],
            COMPILE_TIMEOUT_S,
        )
        built.rename(program)
    return program


def require(tool: str, advice: str) -> None:
    if shutil.which(tool) is None:
        raise MissingToolError(advice)


def run(command: list[str], timeout_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise MissingToolError(
            f"{command[0]} failed:\n{(done.stdout + done.stderr).strip()[-4000:]}"
        )


@contextmanager
def alone() -> Iterator[None]:
    """Locks the machine for one benchmark: two at once would disturb each other."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "bench.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError("Another benchmark is running here; wait until it is done.") from None
        yield


@contextmanager
def staging(final: Path) -> Iterator[Path]:
    """A path beside `final` for the build; removed if it was not renamed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=final.parent))
    try:
        yield scratch / "fresh"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
