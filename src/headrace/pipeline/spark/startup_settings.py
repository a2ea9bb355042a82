"""Settings with which Spark starts fewer external programs, and starts them faster.

Hadoop's file systems call native libraries for permissions and links, and PySpark does not include
them. Without them, Hadoop starts `chmod` for each file that it creates and `readlink` for each file
that it renames: 33 programs for a streaming query of one batch, one after the other. A streaming
query of 1,000 records takes 0.1 to 0.2 s longer without these settings (docs/adr/0024).
"""

import sys
from collections.abc import Mapping
from typing import Final

CHECKPOINT_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Options for administrators. Java applies `extraJavaOptions`, which users set, after them."""
RENAMING: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Like the default on a local disk, it checks that a file exists and renames it, but through Java's
file API."""
FORKING: Final = "-Djdk.lang.Process.launchMechanism=VFORK"
"""By default, Java starts each program through a helper process. This option makes it fork."""
JAVAS_THAT_FORK: Final = range(17, 22)
"""The Java versions that Spark supports. With this option, later versions may refuse to start
programs."""


def jvm_startup_settings(java: int | None) -> Mapping[str, str]:
    """The settings for a local driver with this Java version; None means an unknown version."""
    forks = java in JAVAS_THAT_FORK and sys.platform.startswith("linux")
    return {CHECKPOINT_MANAGER: RENAMING, **({JAVA_OPTIONS: FORKING} if forks else {})}
