"""Files that only their owner may read and write: the metadata contains credentials."""

import logging
import os
import stat
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600

log = logging.getLogger(__package__)


def make_private(path: Path) -> None:
    """Creates the file with mode 0600, or tightens the mode of an existing file to it.

    A new file has this mode from the start, whatever the umask is. An existing file is not opened:
    closing it would release the locks that this process holds on it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    except FileExistsError:
        tighten(path)
        return
    try:
        os.fchmod(descriptor, PRIVATE)  # a umask may have removed bits of the owner
    finally:
        os.close(descriptor)


def tighten(path: Path) -> None:
    """Removes the permissions of other users from a file, if it exists."""
    try:
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and found.st_mode & ~PRIVATE & 0o777:
            path.chmod(PRIVATE)
    except FileNotFoundError:
        return
    except OSError as error:
        # A file of another user, or a file system without modes.
        log.warning(
            "cannot restrict %s to its owner (%s): other users of this machine may be able to "
            "read the credentials in it",
            path,
            error.strerror,
        )
