"""Who asks the controller for metadata: long polls, how far each broker is, who has gone silent.

A broker that asks for what comes after a version has made everything up to it real. So the
controller knows when a change has reached everybody without a message of its own.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_log import MetadataLog
from headrace.cluster.record_format import encode
from headrace.cluster.records import MetadataRecord
from headrace.cluster.snapshot import records_of
from headrace.cluster.store import Elected
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.cluster_metadata import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
)

MAX_SPREAD_S: Final = 1.0
"""A broker that is this late hears of the change later; whoever asked for it is answered now."""

MAX_WAIT_MS: Final = 10_000


class FollowedMetadata(Protocol):
    """The metadata of the broker that the controller runs on: every commit advances it."""

    image: MetadataImage
    journal: MetadataLog
    published_version: int

    def advance(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """Makes `image` current; `records` are the difference from the image before."""

    def on_news(self, told: Callable[[], None]) -> None:
        """Calls `told` for every new image and every published one."""

    def forget(self, told: Callable[[], None]) -> None:
        """Stops calling `told`."""


class PollConnection(Protocol):
    """The connection on which a broker polls."""

    def on_close(self, key: object, lost: Callable[[], None]) -> None:
        """Calls `lost` when the connection has ended; one callback for each key."""


class _Heard(NamedTuple):
    broker_epoch: int
    version: int
    connection: PollConnection


class _PropagationWait(NamedTuple):
    version: int
    done: "asyncio.Future[None]"


Gone = Callable[[int, int], None]
"""(broker id, broker epoch) of a broker whose polls have ended with their connection."""


class MetadataPolls:
    """The polls of one controller's term."""

    def __init__(self, metadata: FollowedMetadata, elected: Elected) -> None:
        self._metadata = metadata
        self._elected = elected
        self._heard: dict[int, _Heard] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._told_version = metadata.image.version
        self._spreads: list[_PropagationWait] = []
        self._snapshot: tuple[int, list[bytes]] = (-1, [])
        self._closed = False
        self.on_gone: Gone = lambda broker_id, broker_epoch: None
        metadata.on_news(self._news)

    def has_heard(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this life of the broker has an open connection for its polls."""
        heard = self._heard.get(broker_id)
        return heard is not None and heard.broker_epoch == broker_epoch

    # --- polls ----------------------------------------------------------------------------------

    async def poll(
        self, request: ClusterMetadataRequest, connection: PollConnection
    ) -> ClusterMetadataResponse:
        self._hear(request, connection)
        if self._metadata.image.version == request.version:
            await self._wait(min(max(request.max_wait_ms, 0), MAX_WAIT_MS) / 1000)
        if self._closed:
            return self.refusal()
        return self._answer(request.version)

    def refusal(self) -> ClusterMetadataResponse:
        image = self._metadata.image
        return ClusterMetadataResponse(
            error_code=ErrorCode.NOT_CONTROLLER,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )

    def _answer(self, version: int) -> ClusterMetadataResponse:
        changes = self._metadata.journal.since(version)
        if changes is None:
            records = self._whole()
        else:
            records = [each for change in changes for each in change.encoded]
        return ClusterMetadataResponse(
            controller_id=self._elected.controller_id,
            controller_epoch=self._elected.controller_epoch,
            is_snapshot=changes is None,
            version=self._metadata.image.version,
            records=records,
        )

    def _whole(self) -> list[bytes]:
        image = self._metadata.image
        if self._snapshot[0] != image.version:
            self._snapshot = (image.version, [encode(each) for each in records_of(image)])
        return self._snapshot[1]

    async def _wait(self, seconds: float) -> None:
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(news)
        try:
            async with asyncio.timeout(seconds):
                await news
        except TimeoutError:
            pass
        finally:
            self._waiting.remove(news)

    def _hear(self, request: ClusterMetadataRequest, connection: PollConnection) -> None:
        id_, epoch = request.broker_id, request.broker_epoch
        before = self._heard.get(id_)
        self._heard[id_] = _Heard(epoch, request.version, connection)
        if before is None or before.connection is not connection:
            connection.on_close(self, lambda: self._ended(id_, connection))
        self._check_spreads()

    def _ended(self, broker_id: int, connection: PollConnection) -> None:
        heard = self._heard.get(broker_id)
        if heard is None or heard.connection is not connection:
            return  # it polls on another one by now
        del self._heard[broker_id]
        self._check_spreads()
        if not self._closed:
            self.on_gone(broker_id, heard.broker_epoch)

    def _news(self) -> None:
        if self._told_version != self._metadata.image.version:
            self._told_version = self._metadata.image.version
            self._wake()
        self._check_spreads()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    # --- how far everybody is -------------------------------------------------------------------

    async def spread(self, version: int) -> None:
        """Returns when this broker and all that poll have this version, or after a while."""
        if self._has_spread(version):
            return
        spread = _PropagationWait(version, asyncio.get_running_loop().create_future())
        self._spreads.append(spread)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_SPREAD_S):
                await spread.done
        self._spreads = [each for each in self._spreads if each is not spread]

    def _has_spread(self, version: int) -> bool:
        if self._closed:
            return True
        if self._metadata.published_version < version:
            return False
        return all(
            heard.version >= version
            for id_, heard in self._heard.items()
            if (broker := self._metadata.image.brokers.get(id_)) is not None and not broker.fenced
        )

    def _check_spreads(self) -> None:
        for spread in self._spreads:
            if not spread.done.done() and self._has_spread(spread.version):
                spread.done.set_result(None)

    def close(self) -> None:
        """The term is over: everybody who waits is answered now."""
        self._closed = True
        self._metadata.forget(self._news)
        self._wake()
        self._check_spreads()
