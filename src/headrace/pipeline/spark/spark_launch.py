"""Settings with which Spark starts fewer programs of the operating system, and starts them sooner.

Hadoop's file systems call native libraries for permissions and links, and PySpark does not include
them. Without them Hadoop starts `chmod` for each file that it creates and `readlink` for each file
that it renames: 33 programs for a streaming query of one batch, one after the other. A streaming
query of 1,000 records takes 0.1 to 0.2 s longer without these settings (docs/adr/0024).
"""

import sys
from collections.abc import Mapping
from typing import Final

CHECKPOINT_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""What an administrator sets; `extraJavaOptions`, which people set, come behind it."""
RENAMING: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""It asks whether a file is there and renames, as the usual one does on a disk, but asks Java."""
FORKING: Final = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Java starts a helper for each program, which starts the program, unless it is told to fork."""
JAVAS_THAT_FORK: Final = range(17, 22)
"""Those that Spark runs on. Later ones may refuse to start anything with this setting."""


def fewer_programs(java: int | None) -> Mapping[str, str]:
    """For a driver on this machine that runs on this version of Java, as far as it is known."""
    forks = java in JAVAS_THAT_FORK and sys.platform.startswith("linux")
    return {CHECKPOINT_MANAGER: RENAMING, **({JAVA_OPTIONS: FORKING} if forks else {})}
