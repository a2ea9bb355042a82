"""A home and an environment for Spark in which its Python processes start at once.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path of its Python
processes. Python keeps nothing compiled of a zip: each new process compiles PySpark from source,
half a second of it, and reads the zip's directory again for each task. In a home without that zip
they take the PySpark that is installed beside Headrace, which is the same one, and compiled.

numpy's algebra starts a thread for each core when it is loaded, and they spin. Spark keeps that
from the workers that run tasks, but not from the processes that plan: there it costs 50 ms for
each streaming query, and as much of the other cores.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HOME: Final = "SPARK_HOME"
PYTHON: Final = "PYSPARK_PYTHON"
THREADS: Final = "OMP_NUM_THREADS"
LINKED: Final = ("bin", "conf", "jars", "sbin")
"""What Java and the start scripts look for in a home; all but `python`."""


@contextmanager
def own_spark_home(master: str) -> Iterator[None]:
    """Inside, Spark starts from such a home, unless somebody chose another home or Python."""
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
def one_thread_for_algebra() -> Iterator[None]:
    """For what is started inside, unless somebody chose a number."""
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS]


def linked_home(installed: Path, cache: Path) -> Path | None:
    """A directory of links to the installed Spark, made at the first use; None without a place."""
    home = cache / f"spark-{hashlib.sha256(str(installed).encode()).hexdigest()[:16]}"
    if home.is_dir():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
        try:
            for name in LINKED:
                (fresh / name).symlink_to(installed / name)
            fresh.rename(home)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError:  # a read-only place, or another process was first
        return home if home.is_dir() else None
    return home


def _runs_this_python() -> bool:
    return os.environ.get(PYTHON) == os.environ.get("PYSPARK_DRIVER_PYTHON") == sys.executable


def _installed() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
