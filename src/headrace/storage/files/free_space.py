"""The free space of the file system that contains a directory."""

import os


def free_bytes(path: str) -> int | None:
    """The bytes that a process without privileges can still write; None if that is unknown."""
    try:
        file_system = os.statvfs(path)
    except OSError:
        return None
    return file_system.f_bavail * file_system.f_frsize
