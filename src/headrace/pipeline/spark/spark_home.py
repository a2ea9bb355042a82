"""A home directory and an environment for Spark in which its Python processes start quickly.

Spark puts `python/lib/pyspark.zip` of its home directory before everything else on the path of its
Python processes. Python keeps nothing compiled of a zip: each new process compiles PySpark from
source, and reads the zip's directory again for each task. In a home directory without that zip they
import the PySpark that is installed beside Headrace, which is the same one, and compiled. A
streaming query of 1,000 records takes 0.5 to 0.6 s with it and 1.3 s without it.

Spark also adds the URL of the jar that it was loaded from to that path, though the jar holds no
Python. Python reads the directory of the jar, 6,000 entries, whenever a process starts or drops its
import caches. The URL of a home directory with a space in its name contains `%20`, which is not a
path that exists, so Python skips it. Without the space the same query takes 0.1 to 0.2 s longer,
and a batch of 400,000 records 1.2 s instead of 1.1 s (docs/adr/0024).

numpy's algebra starts a thread for each core when it is loaded, and these threads spin. Spark
prevents that in the workers that run tasks, but not in the processes that plan a streaming query.
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
"""What the start scripts look for in a home. `jars` has links of its own, `python` is left out."""
JARS: Final = "jars"
CORE: Final = "spark-core_*.jar"
"""The jar whose URL Python gets to see."""
PREFIX: Final = "spark "
"""Of the names of home directories. The space keeps Python from reading the jar."""


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
    jars = sorted((installed / JARS).glob("*.jar"))
    content = "\n".join(map(str, (installed, *jars)))  # another Spark may come to the same place
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
    except OSError:  # a read-only place, or another process was first
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
    """Java follows symbolic links, and the URL would be that of the installed jar."""
    try:
        here.hardlink_to(jar)
    except OSError:  # another file system, or a file of somebody else
        shutil.copyfile(jar, here)


def _clear(cache: Path) -> None:
    """Homes of a Spark that is gone would keep its jar on the disk."""
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
