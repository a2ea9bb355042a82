"""Metadata polls: brokers long-poll the controller, which learns each broker's metadata version.

A broker that polls for changes after a version has applied every change up to it. So the controller
knows when a change has reached all brokers without extra messages.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from headrace.cluster.image import MetadataImage
from headrace.cluster.image_records import records_of
from headrace.cluster.metadata_log import MetadataLog
from headrace.cluster.metadata_record_format import encode
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import Elected
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.cluster_metadata import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
)

MAX_PROPAGATION_S: Final = 1.0
"""How long a response waits for slow brokers; a slower broker gets the change later."""

MAX_WAIT_MS: Final = 10_000


class FollowedMetadata(Protocol):
    """The metadata of the broker that the controller runs on: every commit advances it."""

    image: MetadataImage
    metadata_log: MetadataLog
    published_version: int

    def advance(
        self,
        image: MetadataImage,
        records: Sequence[MetadataRecord],
        *,
        took_ms: int | None = None,
    ) -> None:
        """Makes `image` current; `records` are the difference from the image before."""

    def add_listener(self, callback: Callable[[], None]) -> None:
        """Calls `callback` for every new image and every published one."""

    def remove_listener(self, callback: Callable[[], None]) -> None:
        """Stops calling `callback`."""


class PollConnection(Protocol):
    """The connection on which a broker polls."""

    def on_close(self, key: object, lost: Callable[[], None]) -> None:
        """Calls `lost` when the connection has ended; one callback for each key."""


class _Poller(NamedTuple):
    broker_epoch: int
    version: int
    connection: PollConnection


class _PropagationWait(NamedTuple):
    version: int
    done: "asyncio.Future[None]"


PollsEnded = Callable[[int, int], None]
"""Called with (broker id, broker epoch) when the connection of a broker's polls has closed."""


class MetadataPolls:
    """The metadata polls of one controller term."""

    def __init__(self, metadata: FollowedMetadata, elected: Elected) -> None:
        self._metadata = metadata
        self._elected = elected
        self._pollers: dict[int, _Poller] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._notified_version = metadata.image.version
        self._propagation_waits: list[_PropagationWait] = []
        self._snapshot: tuple[int, list[bytes]] = (-1, [])
        self._closed = False
        self.on_polls_ended: PollsEnded = lambda broker_id, broker_epoch: None
        metadata.add_listener(self._metadata_changed)

    def is_polling(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this incarnation of the broker has an open connection for its polls."""
        poller = self._pollers.get(broker_id)
        return poller is not None and poller.broker_epoch == broker_epoch

    # --- polls ----------------------------------------------------------------------------------

    async def poll(
        self, request: ClusterMetadataRequest, connection: PollConnection
    ) -> ClusterMetadataResponse:
        self._note_poll(request, connection)
        if self._metadata.image.version == request.version:
            await self._wait_for_change(min(max(request.max_wait_ms, 0), MAX_WAIT_MS) / 1000)
        if self._closed:
            return self.not_controller_response()
        return self._poll_response(request.version)

    def not_controller_response(self) -> ClusterMetadataResponse:
        image = self._metadata.image
        return ClusterMetadataResponse(
            error_code=ErrorCode.NOT_CONTROLLER,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )

    def _poll_response(self, version: int) -> ClusterMetadataResponse:
        # A broker that starts gets a snapshot: the history may have records of removed things,
        # which an older version cannot read.
        changes = self._metadata.metadata_log.since(version) if version > 0 else None
        if changes is None:
            records = self._encoded_snapshot()
        else:
            records = [each for change in changes for each in change.encoded]
        return ClusterMetadataResponse(
            controller_id=self._elected.controller_id,
            controller_epoch=self._elected.controller_epoch,
            is_snapshot=changes is None,
            version=self._metadata.image.version,
            records=records,
        )

    def _encoded_snapshot(self) -> list[bytes]:
        image = self._metadata.image
        if self._snapshot[0] != image.version:
            self._snapshot = (image.version, [encode(each) for each in records_of(image)])
        return self._snapshot[1]

    async def _wait_for_change(self, seconds: float) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        try:
            async with asyncio.timeout(seconds):
                await changed
        except TimeoutError:
            pass
        finally:
            self._waiting.remove(changed)

    def _note_poll(self, request: ClusterMetadataRequest, connection: PollConnection) -> None:
        id_, epoch = request.broker_id, request.broker_epoch
        before = self._pollers.get(id_)
        self._pollers[id_] = _Poller(epoch, request.version, connection)
        if before is None or before.connection is not connection:
            connection.on_close(self, lambda: self._connection_closed(id_, connection))
        self._complete_propagation_waits()

    def _connection_closed(self, broker_id: int, connection: PollConnection) -> None:
        poller = self._pollers.get(broker_id)
        if poller is None or poller.connection is not connection:
            return  # the broker polls on a newer connection
        del self._pollers[broker_id]
        self._complete_propagation_waits()
        if not self._closed:
            self.on_polls_ended(broker_id, poller.broker_epoch)

    def _metadata_changed(self) -> None:
        if self._notified_version != self._metadata.image.version:
            self._notified_version = self._metadata.image.version
            self._wake_polls()
        self._complete_propagation_waits()

    def _wake_polls(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    # --- propagation ----------------------------------------------------------------------------

    async def until_propagated(self, version: int) -> None:
        """Waits until this broker and all pollers have the version, at most `MAX_PROPAGATION_S`."""
        if self._is_propagated(version):
            return
        wait = _PropagationWait(version, asyncio.get_running_loop().create_future())
        self._propagation_waits.append(wait)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_PROPAGATION_S):
                await wait.done
        self._propagation_waits = [each for each in self._propagation_waits if each is not wait]

    def _is_propagated(self, version: int) -> bool:
        if self._closed:
            return True
        if self._metadata.published_version < version:
            return False
        return all(
            poller.version >= version
            for id_, poller in self._pollers.items()
            if (broker := self._metadata.image.brokers.get(id_)) is not None and not broker.fenced
        )

    def _complete_propagation_waits(self) -> None:
        for wait in self._propagation_waits:
            if not wait.done.done() and self._is_propagated(wait.version):
                wait.done.set_result(None)

    def close(self) -> None:
        """Ends the term: all waiting polls are answered now."""
        self._closed = True
        self._metadata.remove_listener(self._metadata_changed)
        self._wake_polls()
        self._complete_propagation_waits()
