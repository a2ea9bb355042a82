"""A Spark session: on this machine, on a cluster, or through Spark Connect."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.spark.socket_directory import has_unix_sockets, own_socket_directory
from headrace.pipeline.spark.spark_home import own_spark_home, single_threaded_blas
from headrace.pipeline.spark.startup_settings import jvm_startup_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"
OLDEST_JAVA: Final = 17
JAVA_CHECK_S: Final = 30.0
UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
SOCKET_DIRECTORY: Final = "spark.python.unix.domain.socket.dir"
CONF: Final[Mapping[str, str]] = {
    # Times mean the same on every machine and in the table.
    "spark.sql.session.timeZone": "UTC",
    # With speculation, two attempts of a task would write their files or records twice.
    "spark.speculation": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Java does not compile larger methods, and the rules for bad records generate large ones.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
STATIC_CONF: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.faulthandler.enabled": "true",
    # The JVM and its Python workers run on one machine. This takes a tenth less time than TCP.
    UNIX_SOCKETS: "true",
}
LOCAL_CONF: Final[Mapping[str, str]] = {
    # The host name of this machine may resolve to an address without a listener.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class NoSpark(Exception):
    """Spark cannot be started. The message gives the reason and what to do."""


def open_session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> "SparkSession":
    """Opens a Spark session with the settings of pipelines.

    Args:
        name: The name of the Spark application.
        master: The Spark master; a Connect URL (`sc://host:port`) is possible.
        conf: Spark settings; they take precedence.
        log: The file for the output of Spark's processes, so that a terminal stays readable.
    """
    target = master or (conf or {}).get("spark.master") or LOCAL
    if target.startswith(CONNECT):
        return _connect(target, conf or {})
    java = check_java()
    # Workers run the same Python and packages as this process, unless the user sets another one.
    chosen = (conf or {}).get("spark.pyspark.python")  # PySpark reads it only in spark-submit
    os.environ["PYSPARK_PYTHON"] = chosen or os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings = {**CONF, **STATIC_CONF}
    if is_on_this_machine(target):
        settings.update(LOCAL_CONF)
    if target.startswith("local"):
        settings.update(jvm_startup_settings(java))
    settings.update(_socket_conf(target))
    settings.update(conf or {})
    builder = SparkSession.builder.appName(name).master(target)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with (
            own_spark_home(target),
            single_threaded_blas(),
            _stderr_to(log),
            _owned_processes(),
        ):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        where = f"; see {log}" if log is not None else ""
        raise NoSpark(f"Spark does not start on {target}: {_first_line(error)}{where}") from error
    session.sparkContext.setLogLevel("ERROR")
    _silence_query_error_log()
    return session


def _socket_conf(master: str) -> Mapping[str, str]:
    if not has_unix_sockets():
        return {UNIX_SOCKETS: "false"}
    home = own_socket_directory() if master.startswith("local") else None  # not on other machines
    return {} if home is None else {SOCKET_DIRECTORY: str(home)}


def _silence_query_error_log() -> None:
    """Stops PySpark's JSON log of SQL errors on the terminal: it raises the same errors."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def is_on_this_machine(master: str) -> bool:
    """Whether the driver and the executors reach each other on the loopback interface."""
    host = re.fullmatch(r"spark://(?:\[(.+)\]|([^:,]+)):\d+", master)
    return master.startswith("local") or (
        host is not None and (host[1] or host[2]) in ("localhost", "127.0.0.1")
    )


def _connect(url: str, conf: Mapping[str, str]) -> "SparkSession":
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url)
    for key, value in {**CONF, **conf}.items():
        if key not in STATIC_CONF and key not in ("spark.speculation", "spark.master"):
            builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        version = session.version
    except (PySparkException, OSError, RuntimeError) as error:
        raise NoSpark(f"no Spark Connect server answers at {url}: {_first_line(error)}") from error
    if not version.startswith("4."):
        raise NoSpark(f"{url} runs Spark {version}; pipelines need Spark 4.3")
    _silence_query_error_log()
    return session


def check_java() -> int | None:
    """Finds the version of Java, None if it is unknown; raises `NoSpark`.

    The error is one sentence; Spark's own error has forty lines.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = (
        "Spark needs Java 17 or 21: install it (Debian: apt-get install openjdk-17-jre-headless) "
        "or set JAVA_HOME"
    )
    if java is None or not Path(java).exists():
        where = f" at {java}" if java else ""
        raise NoSpark(f"there is no Java{where}. {advice}")
    try:
        answer = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSpark(f"{java} does not run: {error}. {advice}") from error
    version = java_version(answer.stderr + answer.stdout)
    if version is not None and version < OLDEST_JAVA:
        raise NoSpark(f"{java} is Java {version}. {advice}")
    return version


def java_version(text: str) -> int | None:
    """The major version in the output of `java -version`; None if there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def _owned_processes() -> Iterator[None]:
    """Spark's processes start in their own process group. If the start is interrupted, they end.
    A terminal sends Ctrl-C to the whole foreground group. It would kill the Python workers, and the
    running batch would fail. Once Spark runs, its JVM ends with this process, which holds the other
    end of the JVM's stdin. That is not enough while Spark starts: an exception removes the
    directory in which the JVM reports its port, and a JVM that fails to report never ends. So any
    exception kills the group.
    """
    from pyspark import java_gateway

    name = "Popen"  # PySpark has no setting for the class
    original = getattr(java_gateway, name)
    started: list[_SparkProcess] = []
    setattr(java_gateway, name, partial(_SparkProcess, started))
    try:
        yield
    except BaseException:
        for process in started:
            process.kill_group()
        if started:
            _forget_gateway()
        raise
    finally:
        setattr(java_gateway, name, original)


class _SparkProcess(subprocess.Popen[bytes]):
    """A process that leads its own process group. `started` lists it before the fork."""

    def __init__(self, started: "list[_SparkProcess]", command: Sequence[str], **how: Any) -> None:  # noqa: ANN401
        started.append(self)
        super().__init__(command, process_group=0, **how)

    def kill_group(self) -> None:
        if getattr(self, "pid", None) is None:
            return  # interrupted before the fork
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


def _forget_gateway() -> None:
    """Without this, PySpark would use the connection to the killed JVM for the next session."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """In this context, new processes inherit the file as their stderr."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
