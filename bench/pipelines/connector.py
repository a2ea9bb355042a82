"""Spark's own Kafka source, with the newest Spark for which Maven has all of its parts.

It requires its token provider, which has not been published for any later version. Spark and the
jars are stored in the user's cache directory, like the other artifacts.
"""

import sys
from pathlib import Path

from bench import artifacts

SPARK_VERSION = "4.0.0"
INSTALL_TIMEOUT_S = 900
POM = artifacts.BENCH / "connector" / "pom.xml"


def python() -> Path:
    """The Python of a virtual environment with this Spark, created on the first call."""
    home = artifacts.cache_directory() / f"pyspark-{SPARK_VERSION}"
    program = home / "bin" / "python"
    done = home / ".installed"  # a virtual environment cannot be renamed after it is created
    if not done.exists():
        uv = str(Path(sys.executable).parent / "uv")
        artifacts.run([uv, "venv", "--clear", str(home)], INSTALL_TIMEOUT_S)
        wanted = f"pyspark=={SPARK_VERSION}"
        artifacts.run(
            [uv, "pip", "install", "--quiet", "--python", str(program), wanted], INSTALL_TIMEOUT_S
        )
        done.touch()
    return program


def jars() -> list[Path]:
    """The connector and its parts, downloaded with Maven on the first call."""
    home = artifacts.cache_directory() / f"spark-kafka-{SPARK_VERSION}"
    if not home.is_dir():
        artifacts.require("mvn", "Maven is needed to fetch Spark's Kafka source: install it.")
        with artifacts.staging(home) as fresh:
            artifacts.run(
                [
                    *("mvn", "--batch-mode", "--quiet", "--file", str(POM)),
                    f"-Dspark.version={SPARK_VERSION}",
                    "dependency:copy-dependencies",
                    f"-DoutputDirectory={fresh}",
                ],
                artifacts.MAVEN_TIMEOUT_S,
            )
            fresh.rename(home)
    return sorted(home.glob("*.jar"))
