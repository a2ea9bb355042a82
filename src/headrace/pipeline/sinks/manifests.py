"""Manifests: the files that belong to a directory of Parquet files, and the batch that wrote them.

Each batch writes one small manifest, last and atomically. Readers and retries trust the manifests;
a data file that no manifest names is not part of the table. Periodically a manifest repeats the
content of all earlier ones, which may then be deleted.
"""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyarrow import fs

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import offsets_from_json, offsets_to_json
from headrace.pipeline.sinks.table_sink import SinkError

FOLDER: Final = "_headrace"
BATCH_DIGITS: Final = 12
WHOLE_EVERY: Final = 200
"""Number of manifests after which one repeats all earlier ones, to bound what a reader reads."""
READ_TRIES: Final = 5


class SequenceTaken(SinkError):
    """Another writer has already written the manifest of this number."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of one commit; `offsets` are those of all partitions so far."""

    pipeline: str
    batch_id: int
    sequence: int
    offsets: Mapping[TopicPartition, int]
    added: Sequence[str] = ()
    removed: Sequence[str] = ()


class _File(NamedTuple):
    """The content of a manifest's file: several manifests, if it repeats earlier ones."""

    manifests: Sequence[Manifest]
    is_whole: bool

    @property
    def sequence(self) -> int:
        return self.manifests[0].sequence


class Manifests:
    """The manifests of one directory, in the order in which they were written."""

    def __init__(self, store: fs.FileSystem, base: str) -> None:
        self._store = store
        self._folder = f"{base}/{FOLDER}"
        self._loaded: dict[str, _File] = {}
        """By path; a manifest never changes."""

    def read(self) -> list[Manifest]:
        """The current manifests: the last complete one and those after it."""
        return [each for file in _current(self._files()) for each in file.manifests]

    def _files(self) -> list[_File]:
        for _ in range(READ_TRIES):
            selector = fs.FileSelector(self._folder, allow_not_found=True)
            paths = [
                info.path
                for info in self._store.get_file_info(selector)
                if info.is_file and info.base_name.endswith(".json")
            ]
            try:
                self._loaded = {path: self._loaded.get(path) or self._load(path) for path in paths}
            except FileNotFoundError:
                continue  # deleted after the listing: a newer complete one exists
            return sorted(self._loaded.values(), key=lambda file: file.sequence)
        raise SinkError(f"{self._folder} changed while it was read; try again")

    def _load(self, path: str) -> _File:
        with self._store.open_input_stream(path) as file:
            text = file.read()
        try:
            held = json.loads(text)
            before = [_manifest(each) for each in held.get("before", ())]
            return _File([*before, _manifest(held)], is_whole="before" in held)
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(f"{path} is damaged ({error}); restore it from a backup") from error

    def write(self, manifest: Manifest) -> None:
        """Raises `SequenceTaken` if the store shows that another writer was faster."""
        self._store.create_dir(self._folder, recursive=True)
        files = self._files()
        content = _content(manifest)
        counting = _current(files)
        is_whole = len(counting) > WHOLE_EVERY
        if is_whole:
            known = [each for file in counting for each in file.manifests]
            content["before"] = [_content(each) for each in _summary(known, manifest.sequence)]
        self._write_file(f"{self._folder}/{manifest.sequence:0{BATCH_DIGITS}d}.json", content)
        if is_whole:
            self._delete_before(counting[0].sequence)

    def _write_file(self, path: str, content: Mapping[str, object]) -> None:
        text = json.dumps(content).encode()
        if isinstance(self._store, fs.LocalFileSystem):
            _write_once(Path(path), text)
            return
        if self._store.get_file_info(path).type is not fs.FileType.NotFound:
            raise _taken(path)
        with self._store.open_output_stream(path) as file:  # one atomic request
            file.write(text)

    def _delete_before(self, sequence: int) -> None:
        """Deletes the manifests before the previous complete one: no reader needs them any more."""
        for path, file in list(self._loaded.items()):
            if file.sequence < sequence:
                self._store.delete_file(path)


def _current(files: Sequence[_File]) -> Sequence[_File]:
    """The last complete manifest and those after it."""
    whole = [at for at, file in enumerate(files) if file.is_whole]
    return files[whole[-1] :] if whole else files


def _summary(manifests: Sequence[Manifest], sequence: int) -> list[Manifest]:
    """The sum of the manifests, as one manifest for each pipeline. Pure."""
    last = {each.pipeline: each for each in manifests}
    files = files_of(manifests)
    return [
        Manifest(each.pipeline, each.batch_id, sequence, each.offsets, () if at else files)
        for at, each in enumerate(last.values())
    ]


def _manifest(held: Mapping[str, Any]) -> Manifest:
    return Manifest(
        held["pipeline"],
        held["batch"],
        held["sequence"],
        offsets_from_json(json.dumps(held["offsets"])),
        held["added"],
        held["removed"],
    )


def _content(manifest: Manifest) -> dict[str, object]:
    return {
        "pipeline": manifest.pipeline,
        "batch": manifest.batch_id,
        "sequence": manifest.sequence,
        "offsets": json.loads(offsets_to_json(manifest.offsets)),
        "added": list(manifest.added),
        "removed": list(manifest.removed),
    }


def _write_once(path: Path, text: bytes) -> None:
    """Creates the file atomically; never replaces an existing one."""
    temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")  # two writers, two files
    with temporary.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise _taken(str(path)) from None
    finally:
        temporary.unlink()


def _taken(path: str) -> SequenceTaken:
    return SequenceTaken(f"{path} already exists: is this pipeline running twice?")


def files_of(manifests: Sequence[Manifest]) -> list[str]:
    """The current data files, in the order in which they were added."""
    current: dict[str, None] = {}
    for manifest in manifests:
        for path in manifest.removed:
            current.pop(path, None)
        current.update(dict.fromkeys(manifest.added))
    return list(current)
