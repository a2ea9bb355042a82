"""A home and an environment for Spark in which its Python processes start at once.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path of its Python
processes. Python keeps nothing compiled of a zip: each new process compiles PySpark from source,
half a second of it, and reads the zip's directory again for each task. In a home without that zip
they take the PySpark that is installed beside Headrace, which is the same one, and compiled.

Spark also names them the jar that it was loaded from, by its URL, though there is no Python in it.
Python reads the directory of that jar, 6,000 entries, when a process starts and again when it is
told where files are: 50 ms and more for each streaming query. In the URL of a home with a space in
its name there is a `%20`, and so it is no path: Python finds nothing there and passes on.

numpy's algebra starts a thread for each core when it is loaded, and they spin. Spark keeps that
from the workers that run tasks, but not from the processes that plan: there it costs 50 ms for
each streaming query, and as much of the other cores.
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
"""Of the names of homes; its space is what keeps Python from that jar."""


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
