"""Packs a directory into a small archive that tells nothing of the machine."""

import lzma
import tarfile
from pathlib import Path


def pack(home: Path, archive: Path) -> None:
    """Everything below `home`, with names relative to it; holes of sparse files are zeros."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 1_767_225_600
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with lzma.open(archive, "wb", preset=9) as out, tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(home.rglob("*")):
            tar.add(path, str(path.relative_to(home)), recursive=False, filter=plain)
