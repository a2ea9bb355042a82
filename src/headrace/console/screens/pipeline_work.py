"""Reads the checkpoint directories of pipelines. Its functions block: call them in threads.

A checkpoint directory has the flow's name (`owner.json`), the spec and process of the last run
(`run.json`), a lock that a run holds, and the history of its batches.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.console.screens.pipeline_timeline import BatchEvent
from headrace.console.web.errors import PageError

MAX_DEPTH: Final = 3
MAX_FOLDERS: Final = 2_000
"""A path that was given by mistake, such as /, must not be searched as a whole."""
HISTORY_EVENTS: Final = 400
INSTALL: Final = "pip install 'headrace[pipeline]'"


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """One flow's checkpoint directory."""

    flow: str
    path: str
    is_running: bool
    run: Mapping[str, Any]
    """`run.json`; empty if the last run did not write one."""


def find_checkpoints(paths: Sequence[str]) -> tuple[list[FoundCheckpoint], list[str]]:
    """The checkpoints in these directories and of these specs, and what could not be read."""
    found: dict[str, FoundCheckpoint] = {}
    problems: list[str] = []
    for text in paths:
        path = Path(text)
        try:
            folders = _of_spec(path) if path.is_file() else _below(path)
            for folder in folders:
                checkpoint = _read(folder)
                if checkpoint is not None:
                    found.setdefault(str(folder), checkpoint)
        except Exception as error:  # one bad path must not hide the others
            problems.append(f"{text}: {error}")
    return sorted(found.values(), key=lambda each: each.flow), problems


def _of_spec(path: Path) -> Iterator[Path]:
    from headrace.pipeline.application.spec_loader import load_spec

    for flow in load_spec(path).resolved():
        yield Path(flow.checkpoint.removeprefix("file://"))


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        raise FileNotFoundError("no such directory or spec")
    level = [path]
    seen = 0
    for _ in range(MAX_DEPTH + 1):
        following: list[Path] = []
        for folder in level:
            seen += 1
            if seen > MAX_FOLDERS:
                raise ValueError(f"more than {MAX_FOLDERS} directories; name a smaller one")
            if (folder / "owner.json").is_file():
                yield folder
            else:
                following += sorted(each for each in folder.iterdir() if each.is_dir())
        level = following


def _read(folder: Path) -> FoundCheckpoint | None:
    from headrace.pipeline.batch.checkpoint_directory import Checkpoint

    checkpoint = Checkpoint(str(folder))
    flow = checkpoint.owner()
    if flow is None:
        return None
    return FoundCheckpoint(flow, str(folder), checkpoint.is_locked(), checkpoint.last_run() or {})


def read_events(path: str, limit: int = HISTORY_EVENTS) -> list[BatchEvent]:
    """The last events of the history, oldest first; raises `PageError`."""
    try:
        from headrace.pipeline.application.history import RunHistory
    except ModuleNotFoundError as error:
        raise PageError(
            501,
            "The history needs more packages",
            f"{error.name} is missing. Install them beside the console: {INSTALL}",
        ) from None
    return [_event(row) for row in RunHistory(Path(path) / "history").events(limit)]


def _event(row: Mapping[str, Any]) -> BatchEvent:
    return BatchEvent(
        time_ms=int(row["time"].timestamp() * 1000),
        kind=row["kind"],
        batch_id=row["batch_id"],
        rows=row["rows"] or 0,
        offsets_read=row["offsets_read"] or 0,
        dead_letters=row["dead_letters"] or 0,
        skipped=row["skipped"] or 0,
        seconds=row["seconds"] or 0.0,
        phases=json.loads(row["phases"]),
        version=row["version"],
        offsets=json.loads(row["offsets"]),
        lag=json.loads(row["lag"]),
        message=row["message"],
    )


def spec_text(run: Mapping[str, Any]) -> str | None:
    """The spec of the last run as YAML, or as JSON without PyYAML."""
    spec = run.get("spec")
    if spec is None:
        return None
    try:
        import yaml
    except ModuleNotFoundError:
        return json.dumps(spec, indent=2)
    return str(yaml.safe_dump(spec, sort_keys=False, allow_unicode=True))
