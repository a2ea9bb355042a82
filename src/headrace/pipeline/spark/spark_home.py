"""A home directory and an environment for Spark in which its Python processes start quickly.

Spark puts `python/lib/pyspark.zip` of its home directory first on the path of its Python processes.
Python does not cache compiled code for a zip. So each new process compiles PySpark from source, and
reads the zip's directory again for each task. In a home directory without this zip, the processes
import the compiled PySpark that is installed beside Headrace. It is the same PySpark. A streaming
query of 1,000 records takes 0.5 to 0.6 s with it and 1.3 s without it.

Spark also adds the URL of its own jar to that path, though the jar contains no Python code. Python
reads the directory of the jar, 6,000 entries, whenever a process starts or drops its import caches.
If the home directory has a space in its name, the URL contains `%20`. No such path exists, so
Python skips it. Without the space the same query takes 0.1 to 0.2 s longer, and a batch of 400,000
records 1.2 s instead of 1.1 s (docs/adr/0024).

The linear algebra library of numpy starts a thread for each core when it is loaded, and these
threads spin. Spark prevents that in the workers that run tasks, but not in the processes that plan
a streaming query.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HOME: Final = "SPARK_HOME"
PYTHON: Final = "PYSPARK_PYTHON"
THREADS: Final = "OMP_NUM_THREADS"
BIN: Final = "bin"
LINKED: Final = (BIN, "conf", "sbin")
"""The links that the start scripts need in a home directory. `jars` is a directory of links, and
`python` is left out."""
JARS: Final = "jars"
CORE: Final = "spark-core_*.jar"
"""The jar whose URL is on Python's path."""
PREFIX: Final = "spark "
"""The prefix of the home directories' names. The space keeps Python from reading the jar."""


@contextmanager
def own_spark_home(master: str) -> Iterator[None]:
    """In this context, Spark starts from such a home directory.

    It does nothing if the user has set another home directory or another Python.
    """
    if HOME in os.environ or not master.startswith("local") or not _runs_this_python():
        yield
        return
    home = linked_home(_installed(), _cache())
    if home is None:
        yield
        return
    os.environ[HOME] = str(home)
    try:
        yield
    finally:
        del os.environ[HOME]


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """In this context, new processes use one thread for algebra, unless a number is already set."""
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS]


def linked_home(installed: Path, cache: Path) -> Path | None:
    """A directory of links to the installed Spark, created at the first use; None on failure."""
    jars = sorted((installed / JARS).glob("*.jar"))
    content = "\n".join(map(str, (installed, *jars)))  # the path alone is not unique
    home = cache / (PREFIX + hashlib.sha256(content.encode()).hexdigest()[:16])
    if home.is_dir():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
        try:
            _fill(fresh, installed, jars)
            fresh.rename(home)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError:  # a read-only directory, or another process was faster
        return home if home.is_dir() else None
    _clear(cache)
    return home


def _fill(home: Path, installed: Path, jars: Sequence[Path]) -> None:
    for name in LINKED:
        (home / name).symlink_to(installed / name)
    (home / JARS).mkdir()
    for jar in jars:
        here = home / JARS / jar.name
        if jar.match(CORE):
            _as_file(jar, here)
        else:
            here.symlink_to(jar)


def _as_file(jar: Path, here: Path) -> None:
    """Links or copies a jar: Java resolves a symbolic link to the URL of the installed jar."""
    try:
        here.hardlink_to(jar)
    except OSError:  # another file system, or a file of another user
        shutil.copyfile(jar, here)


def _clear(cache: Path) -> None:
    """Removes old home directories: they would keep the jar of a deleted Spark on the disk."""
    for home in cache.glob(f"{PREFIX}*"):
        if not (home / BIN).exists():
            shutil.rmtree(home, ignore_errors=True)


def _runs_this_python() -> bool:
    return os.environ.get(PYTHON) == os.environ.get("PYSPARK_DRIVER_PYTHON") == sys.executable


def _installed() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
