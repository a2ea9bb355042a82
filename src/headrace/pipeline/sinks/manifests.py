"""Manifests: which files a folder of Parquet consists of, and which batch wrote them.

One small file a batch, written last and under its final name at once: it is there or it is not.
Readers and replays trust the manifests; a data file that none of them names does not count.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyarrow import fs

from headrace.client.outcomes import TopicPartition
from headrace.pipeline.offsets import offsets_from_json, offsets_to_json
from headrace.pipeline.sinks.table import SinkError

FOLDER: Final = "_headrace"
BATCH_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one commit did; `offsets` are those of all partitions so far."""

    pipeline: str
    batch_id: int
    sequence: int
    offsets: Mapping[TopicPartition, int]
    added: Sequence[str] = ()
    removed: Sequence[str] = ()


class Manifests:
    """The manifests of one folder, in the order in which they were written."""

    def __init__(self, store: fs.FileSystem, base: str) -> None:
        self._store = store
        self._folder = f"{base}/{FOLDER}"

    def read(self) -> list[Manifest]:
        selector = fs.FileSelector(self._folder, allow_not_found=True)
        found = [
            self._load(info.path)
            for info in self._store.get_file_info(selector)
            if info.is_file and info.base_name.endswith(".json")
        ]
        return sorted(found, key=lambda each: each.sequence)

    def _load(self, path: str) -> Manifest:
        with self._store.open_input_stream(path) as file:
            text = file.read()
        try:
            held = json.loads(text)
            return Manifest(
                held["pipeline"],
                held["batch"],
                held["sequence"],
                offsets_from_json(json.dumps(held["offsets"])),
                held["added"],
                held["removed"],
            )
        except (ValueError, KeyError) as error:
            raise SinkError(f"{path} is damaged ({error}); restore it from a backup") from error

    def write(self, manifest: Manifest) -> None:
        """Raises if another writer was faster with the same sequence, where that can be seen."""
        self._store.create_dir(self._folder, recursive=True)
        text = json.dumps(
            {
                "pipeline": manifest.pipeline,
                "batch": manifest.batch_id,
                "sequence": manifest.sequence,
                "offsets": json.loads(offsets_to_json(manifest.offsets)),
                "added": list(manifest.added),
                "removed": list(manifest.removed),
            }
        ).encode()
        path = f"{self._folder}/{manifest.sequence:0{BATCH_DIGITS}d}.json"
        if isinstance(self._store, fs.LocalFileSystem):
            _write_once(Path(path), text)
            return
        if self._store.get_file_info(path).type is not fs.FileType.NotFound:
            raise _taken(path)
        with self._store.open_output_stream(path) as file:  # one request: whole or not at all
            file.write(text)


def _write_once(path: Path, text: bytes) -> None:
    """A new file with these bytes, whole at once; never over one that is there."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(text)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise _taken(str(path)) from None
    finally:
        temporary.unlink()


def _taken(path: str) -> SinkError:
    return SinkError(f"{path} is there already: is this pipeline running twice?")


def files_of(manifests: Sequence[Manifest]) -> list[str]:
    """The data files that count, in the order in which they were added."""
    current: dict[str, None] = {}
    for manifest in manifests:
        for path in manifest.removed:
            current.pop(path, None)
        current.update(dict.fromkeys(manifest.added))
    return list(current)
