"""Closing a log: a clean stop completes its files, so that the next start need not scan them."""

from headrace.storage.errors import LogClosed
from headrace.storage.files.filesystem import TEMPORARY_SUFFIX, write_file
from headrace.storage.log.local_log import LocalLog
from headrace.storage.state import segment_manifest
from headrace.storage.state.checkpoint_file import LEADER_EPOCHS, encode_epochs
from headrace.storage.state.segment_manifest import LogManifest, SegmentState, crc_of_epochs


def is_flushed(local: LocalLog) -> bool:
    """Whether closing has nothing to sync."""
    return not local.is_loaded or (
        local.durability.recovery_point == local.log_end_offset and not local.epochs.changed
    )


def complete_files(local: LocalLog) -> None:
    """Writes the active segment's indexes and the producer snapshot. They are not synced."""
    if local.failure is not None or not local.is_loaded:
        return
    try:
        active = local.segments.active
        if active is not None:
            active.write_indexes()
            active.close()
            if local.producers.by_id or local.segments.snapshots:
                local.write_snapshot(sync=False)
    except OSError as error:
        raise local.directory.fault(error, f"closing {local.name}") from error


def write_epochs(local: LocalLog) -> None:
    """Writes the leader epochs. The caller syncs the whole file system afterwards."""
    if local.is_loaded and local.epochs.changed:
        path, data = f"{local.path}/{LEADER_EPOCHS}", encode_epochs(local.epochs.entries)
        # Under a temporary name first: if the disk is full, the old file stays.
        write_file(local.fs, path + TEMPORARY_SUFFIX, data, sync=False)
        local.fs.rename(path + TEMPORARY_SUFFIX, path)
        local.epochs.changed = False


def manifest_line(local: LocalLog) -> str | None:
    """The log's line in the list of segments; None if its files are not known."""
    if not local.is_loaded:
        return local.checkpointed.manifest
    return segment_manifest.encode(
        LogManifest(
            local.log_end_offset,
            local.log_start_offset,
            crc_of_epochs(local.epochs.entries),
            tuple(
                SegmentState(each.base_offset, each.size, each.txns.checksum)
                for each in local.segments.items
            ),
            tuple((hole.first_offset, hole.next_offset) for hole in local.damaged_ranges.holes),
        )
    )


def close(local: LocalLog, *, clean: bool, everything_synced: bool) -> None:
    """Closes the files; `clean` completes and syncs them first.

    `everything_synced` says that the caller has completed the files and synced the file system.
    """
    directory = local.directory
    if clean and local.is_loaded and local.failure is None:
        local.finish_swap()
        if not everything_synced:
            complete_files(local)
        try:
            local.durability.close(
                local.segments, local.epochs, local.log_end_offset, synced=everything_synced
            )
        except OSError as error:
            raise directory.fail(f"closing {local.name}: {error}") from error
    directory.damaged.discard(local.name)
    directory.full.discard(local.name)
    if local.log_failure is None:
        local.log_failure = LogClosed(f"{local.name} is closed")
    local.durability.is_closed = True
    local.segments.close()
