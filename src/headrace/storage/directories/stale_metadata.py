"""Whether the cluster's metadata is older than the log directories: restored from a backup."""

from collections.abc import Sequence

from headrace.storage.directories.log_directory import LogDirectory
from headrace.storage.directories.metadata_version_file import ANY, ANY_WORD, METADATA_VERSION
from headrace.storage.errors import StaleMetadata


def check_metadata_version(
    directories: Sequence[LogDirectory], cluster_id: str | None, stored_version: int
) -> bool:
    """Raises `StaleMetadata` if a directory knows a later version than the cluster has stored.

    Runs before anything in the directories is changed: the operator may restore the metadata that
    belongs to them. Returns whether an operator has allowed any version for this start.
    """
    known = {
        directory.path: directory.known_metadata_version(cluster_id) for directory in directories
    }
    latest = max(known.values())
    if latest > stored_version:
        files = " and ".join(f"{path}/{METADATA_VERSION}" for path in known)
        raise StaleMetadata(
            f"the cluster's metadata has version {stored_version}, but this broker's log "
            f"directories have seen version {latest}: was ZooKeeper restored from an old backup? "
            "Its metadata lacks later changes, so it may elect leaders that miss acknowledged "
            "records. Restore the latest metadata. If that is lost, stop all brokers and, on each "
            f"of them, write the word {ANY_WORD} into {files}: logs of unknown topics then become "
            "stray logs, and leaders are chosen from the in-sync replicas of the backup"
        )
    return ANY in known.values()
