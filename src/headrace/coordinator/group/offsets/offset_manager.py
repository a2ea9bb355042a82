"""The committed offsets of one shard: the entry point for requests, records and timers."""

from collections.abc import Callable, Collection, Container, Hashable, Mapping
from itertools import islice
from typing import Any, Final

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import CancelTimer, CoordinatorResult, SetTimer
from headrace.coordinator.group.group import Group, GroupType
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.offsets import offset_expiration
from headrace.coordinator.group.offsets.offset_commit import OffsetCommitter
from headrace.coordinator.group.offsets.offset_fetch import OffsetFetcher
from headrace.coordinator.group.offsets.offset_state import OffsetState
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from headrace.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from headrace.protocol.struct import Struct

_EXPIRE: Final = ("offsets", "expire")
_CLEAN: Final = ("offsets", "clean")
_SOON_MS: Final = 1
_MAX_TOMBSTONES: Final = 1_000
"""The limit of one result, which is one batch: with the longest names it still fits into a message.
A timer that expires at once writes further tombstones, so that requests are served in between."""


class OffsetManager:
    """Commits, fetches, deletions and expiry, over the groups of one shard."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        image: Callable[[], MetadataImage],
        config: Callable[[str], GroupConfig],
    ) -> None:
        self.state = OffsetState()
        self._groups = groups
        self._image = image
        self._config = config
        self._to_clean: set[str] = set()
        committer = OffsetCommitter(groups, image, config)
        self.commit: Callable[
            [int, OffsetCommitRequest, int], CoordinatorResult[OffsetCommitResponse]
        ] = committer.commit
        self.commit_in_transaction: Callable[
            [int, TxnOffsetCommitRequest, int], CoordinatorResult[TxnOffsetCommitResponse]
        ] = committer.commit_in_transaction

    def fetch(
        self, version: int, request: OffsetFetchRequestGroup, *, stable: bool
    ) -> OffsetFetchResponseGroup:
        """Fetches a group's offsets; raises if the group refuses the member."""
        group = self._groups.get(request.group_id)
        if group is not None and group.kind is not GroupType.SHARE:
            group.check_fetch(request.member_id, request.member_epoch)
        return OffsetFetcher(self.state, self._image(), version=version, stable=stable).fetch(
            request
        )

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Deletes single offsets; raises if the group does not exist or refuses the deletion."""
        group = self._groups.get(request.group_id)
        if group is None:
            raise CoordinatorError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found."
            )
        group.check_offset_delete()
        changes, answer = offset_expiration.delete(self.state, group, self._image(), request)
        return CoordinatorResult(answer, changes)

    @property
    def replays(self) -> Mapping[type[Struct], Replay]:
        """No functions: the shard itself passes offset records to `state`, with their producer and
        their offset in the log."""
        return {}

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        return CoordinatorResult(None, timers=[self._next_check()])

    @property
    def expirations(self) -> Container[Hashable]:
        """The timers that delete offsets by their age."""
        return (_EXPIRE,)

    def on_timeout(self, key: tuple[Any, ...], now_ms: int) -> CoordinatorResult[None]:
        return self._expire(now_ms) if key == _EXPIRE else self._clean()

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """Deletes offsets of deleted topics."""
        self._to_clean.update(topics)
        return self._clean()

    def unload(self, error: CoordinatorError) -> None:
        """Does nothing: no request waits for offsets."""

    def _next_check(self) -> SetTimer:
        return SetTimer(_EXPIRE, self._config("").offsets_retention_check_interval_ms)

    def _expire(self, now_ms: int) -> CoordinatorResult[None]:
        """Deletes expired offsets, and with the last one its group, if it has no members."""
        changes: list[RecordChange] = []
        cancelled: list[CancelTimer] = []
        for group_id, group in self._groups.items():
            if group.kind is GroupType.SHARE:
                continue
            config = self._config(group_id)
            tombstones, none_left = offset_expiration.expired(self.state, group, config, now_ms)
            room = _MAX_TOMBSTONES - len(changes)
            changes += tombstones[:room]
            if len(tombstones) > room:
                return CoordinatorResult(
                    None, changes, timers=[*cancelled, SetTimer(_EXPIRE, _SOON_MS)]
                )
            if none_left and group.is_empty:
                changes += group.tombstones()
                cancelled += group.timers()
        return CoordinatorResult(None, changes, timers=[*cancelled, self._next_check()])

    def _clean(self) -> CoordinatorResult[None]:
        """Deletes the offsets of deleted topics."""
        tombstones = offset_expiration.of_deleted_topics(self.state, self._to_clean, self._image())
        changes = list(islice(tombstones, _MAX_TOMBSTONES))
        if len(changes) == _MAX_TOMBSTONES:
            return CoordinatorResult(None, changes, timers=[SetTimer(_CLEAN, _SOON_MS)])
        self._to_clean.clear()
        return CoordinatorResult(None, changes)
