"""The metadata store: where the cluster's records are kept, and its errors.

A store guarantees that a batch whose `commit` returned is there after a crash or a power loss,
that a batch is stored whole or not at all, and that a commit against another version than the
stored one changes nothing.
"""

from collections.abc import Sequence
from typing import Protocol

from headrace.cluster.image import MetadataImage
from headrace.cluster.records import MetadataRecord


class StoreError(Exception):
    """The store cannot be used as asked. The message says where and what to do."""


class StaleVersion(StoreError):
    """Somebody else committed since the image was loaded: load again and decide anew."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"metadata is at version {found}, not {expected}: it was changed meanwhile"
        )
        self.expected = expected
        self.found = found


class CorruptStore(StoreError):
    """What is stored does not hold together."""


class NewerStore(StoreError):
    """A newer Headrace wrote the store."""


class StoreInUse(StoreError):
    """Another process has the store open."""


class MetadataStore(Protocol):
    """Calls block; the caller decides on which thread."""

    def load(self) -> MetadataImage:
        """The image at the stored version."""
        ...

    def commit(self, records: Sequence[MetadataRecord], *, expected_version: int) -> int:
        """Store the batch durably and return the new version; `StaleVersion` if it moved."""
        ...

    def close(self) -> None:
        """Release the store. Nothing is lost without it."""
        ...
