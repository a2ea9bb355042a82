"""The data directories of released versions, unpacked for a test."""

import tarfile
from pathlib import Path

DATA = Path(__file__).parents[2] / "data"


def unpack(version: str, name: str, target: Path) -> Path:
    """Unpacks the archive with that name to `target`; tests/data/VERSION/README.md lists them."""
    with tarfile.open(DATA / version / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target
