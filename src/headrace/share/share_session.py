"""Share sessions: the partitions that each member of a share group reads from this broker.

A request has only the changes since the last one, and its epoch proves that no request was lost. A
member has at most one session, and the number of all sessions is bounded.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.protocol.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1

SharedPartition = tuple[bytes, int]  # topic id, index


class ShareSessionError(Exception):
    """A request that does not fit the session."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession:
    """The partitions of one member, in the order in which they are served."""

    key: SessionKey
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[SharedPartition, None] = field(default_factory=dict)

    def advance_epoch(self) -> None:
        self.epoch = INITIAL_EPOCH + 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def update(
        self, wanted: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]
    ) -> None:
        for partition in wanted:
            self.partitions.setdefault(partition)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def move_to_end(self, partition: SharedPartition) -> None:
        """Moves a partition whose records the member got behind the others."""
        if partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None


class ShareFetchPlan(NamedTuple):
    """The partitions that one request reads. The last request of a session reads none."""

    partitions: list[SharedPartition]
    session: ShareSession | None = None

    def rotated(self, epoch: int) -> list[SharedPartition]:
        """The partitions, rotated by the session epoch, so that each is served in spite of
        limits."""
        first = max(0, epoch) % max(1, len(self.partitions))
        return self.partitions[first:] + self.partitions[:first]


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        key: SessionKey,
        epoch: int,
        wanted: list[SharedPartition],
        forgotten: Iterable[SharedPartition],
        *,
        acknowledges: bool,
        limit: int,
    ) -> ShareFetchPlan:
        """Opens, continues or prepares to close a session; raises ShareSessionError."""
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise ShareSessionError(
                    ErrorCode.INVALID_REQUEST,
                    "The first request of a share session cannot acknowledge records.",
                )
            return ShareFetchPlan(wanted, self._open(key, wanted, limit))
        session = self._continue(key, epoch)
        if epoch == FINAL_EPOCH:
            return ShareFetchPlan([])
        session.update(wanted, forgotten)
        return ShareFetchPlan(list(session.partitions), session)

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """A request with acknowledgements only; raises ShareSessionError."""
        if epoch == INITIAL_EPOCH:
            raise ShareSessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self._continue(key, epoch)

    def find(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def close(self, key: SessionKey) -> ShareSession | None:
        """Removes the session and returns it."""
        session = self._sessions.pop(key, None)
        if session is not None:
            left = self._members[key.group_id] - 1
            if left:
                self._members[key.group_id] = left
            else:
                del self._members[key.group_id]
        return session

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session."""
        return group_id in self._members

    def _continue(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request after the first one, with its epoch advanced."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise ShareSessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.advance_epoch()
        return session

    def _open(self, key: SessionKey, wanted: list[SharedPartition], limit: int) -> ShareSession:
        self.close(key)
        if len(self._sessions) >= limit:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(key, partitions=dict.fromkeys(wanted))
        self._sessions[key] = session
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session
