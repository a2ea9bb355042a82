"""A disk that is soon full: a file system in memory, of a few megabytes."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NoMount(Exception):
    """Whoever runs this may not mount anything."""


class SmallDisk:
    """Mounted at `path` while its context lasts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resize(self, megabytes: int) -> None:
        _mount("-o", f"remount,size={megabytes}m", str(self.path))


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Raises `NoMount`."""
    path.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: whoever has a file of it open does not keep it in the way.
        subprocess.run(["umount", "-l", str(path)], check=True)


def _mount(*words: str) -> None:
    try:
        done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoMount(str(error)) from error
    if done.returncode:
        raise NoMount(done.stderr.strip())
