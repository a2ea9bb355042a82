"""The home that Spark's processes start from."""

import errno
import os
import sys
from pathlib import Path

import pytest

from headrace.pipeline.spark.spark_home import (
    HOME,
    PYTHON,
    THREADS,
    linked_home,
    own_spark_home,
    single_threaded_blas,
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    spark = tmp_path / "pyspark"
    for name in ("bin", "jars", "sbin", "python/lib"):
        (spark / name).mkdir(parents=True)
    (spark / "bin" / "spark-submit").touch()
    (spark / "jars" / "spark-core_2.13-4.3.0.jar").write_bytes(b"core")
    (spark / "jars" / "spark-sql_2.13-4.3.0.jar").write_bytes(b"sql")
    (spark / "python" / "lib" / "pyspark.zip").touch()
    return spark


@pytest.fixture
def this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(PYTHON, sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.delenv(HOME, raising=False)


def test_a_linked_home_has_sparks_programs_and_no_zip_of_pyspark(
    installed: Path, tmp_path: Path
) -> None:
    home = linked_home(installed, tmp_path / "cache")
    assert home is not None
    assert (home / "bin" / "spark-submit").exists()
    jars = {jar.name: jar.read_bytes() for jar in (home / "jars").iterdir()}
    assert jars == {jar.name: jar.read_bytes() for jar in (installed / "jars").iterdir()}
    assert not (home / "python").exists()


def test_the_url_of_sparks_core_is_not_a_path_that_python_reads(
    installed: Path, tmp_path: Path
) -> None:
    home = linked_home(installed, tmp_path / "cache")
    assert home is not None
    core = (home / "jars" / "spark-core_2.13-4.3.0.jar").resolve()  # as Java does
    url = core.as_uri().removeprefix("file://")
    assert core.exists()
    assert not Path(url).exists()


def test_on_another_file_system_the_core_is_copied(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(here: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(here), None, str(target))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    home = linked_home(installed, tmp_path / "cache")
    assert home is not None
    core = home / "jars" / "spark-core_2.13-4.3.0.jar"
    assert core.read_bytes() == b"core"
    assert not core.is_symlink()


def test_another_version_at_the_same_path_gets_its_own_home(
    installed: Path, tmp_path: Path
) -> None:
    before = linked_home(installed, tmp_path / "cache")
    (installed / "jars" / "spark-core_2.13-4.3.0.jar").rename(
        installed / "jars" / "spark-core_2.13-4.3.1.jar"
    )
    after = linked_home(installed, tmp_path / "cache")
    assert after is not None
    assert after != before
    assert (after / "jars" / "spark-core_2.13-4.3.1.jar").exists()


def test_the_home_of_a_removed_spark_is_deleted(installed: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    gone = linked_home(installed, cache)
    assert gone is not None
    moved = installed.rename(tmp_path / "moved")
    other = cache / "spark-kafka-4.0.0"
    other.mkdir()
    home = linked_home(moved, cache)
    assert sorted(cache.iterdir()) == sorted([other, home])


def test_a_linked_home_is_made_once_and_leaves_nothing_else_behind(
    installed: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    assert linked_home(installed, cache) == linked_home(installed, cache)
    assert len(list(cache.iterdir())) == 1


def test_spark_keeps_its_own_home_if_nothing_can_be_written(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert linked_home(installed, tmp_path / "file" / "cache") is None


@pytest.mark.usefixtures("this_python")
def test_spark_on_this_machine_starts_from_the_linked_home() -> None:
    with own_spark_home("local[2]"):
        assert (Path(os.environ[HOME]) / "bin" / "spark-submit").exists()
    assert HOME not in os.environ


@pytest.mark.usefixtures("this_python")
def test_a_configured_spark_home_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME, "/opt/spark")
    with own_spark_home("local[2]"):
        assert os.environ[HOME] == "/opt/spark"
    assert os.environ[HOME] == "/opt/spark"


@pytest.mark.usefixtures("this_python")
def test_a_cluster_and_another_python_keep_their_own_homes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with own_spark_home("spark://master:7077"):
        assert HOME not in os.environ
    monkeypatch.setenv(PYTHON, "/opt/other/bin/python")
    with own_spark_home("local[2]"):
        assert HOME not in os.environ


def test_only_processes_started_inside_get_one_algebra_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    with single_threaded_blas():
        assert os.environ[THREADS] == "1"
    assert THREADS not in os.environ


def test_a_configured_number_of_threads_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS, "4")
    with single_threaded_blas():
        assert os.environ[THREADS] == "4"
    assert os.environ[THREADS] == "4"
