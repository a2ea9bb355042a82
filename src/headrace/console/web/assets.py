"""The style sheet, the script and the icons: read once, addressed by their content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "static"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_CHARS: Final = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content: bytes
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of `static`, by name."""

    by_name: dict[str, Asset]

    @classmethod
    def load(cls) -> "Assets":
        found = {}
        for path in sorted(FOLDER.iterdir()):
            if path.suffix in TYPES:
                content = path.read_bytes()
                version = hashlib.sha256(content).hexdigest()[:_HASH_CHARS]
                found[path.name] = Asset(content, TYPES[path.suffix], version)
        return cls(found)

    def url(self, name: str) -> str:
        """An address that changes with the content, so browsers may keep the file for ever."""
        return f"/static/{name}?v={self.by_name[name].version}"
