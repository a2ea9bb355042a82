"""A cluster member's view of the metadata: it follows the controller's committed changes.

Images are published in order. Each is applied to this broker (leaders, logs, configurations) before
the next. The controller, which may be this broker, decides all changes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from headrace.broker.metadata.standalone_metadata import Publish
from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.image import MetadataImage
from headrace.cluster.image_events import events_between
from headrace.cluster.metadata_log import MetadataChange, MetadataLog
from headrace.cluster.metadata_records import MetadataRecord
from headrace.controller.config_changes import ConfigControl
from headrace.controller.errors import NotController, require_active
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.producer_id_blocks import ProducerIdBlock
from headrace.controller.result import ControllerResult
from headrace.controller.topic_changes import CreatedTopic, NewTopic
from headrace.log_event import write_events

if TYPE_CHECKING:
    from headrace.controller.active_controller import ActiveController

T = TypeVar("T")

log = logging.getLogger(__package__)


class _UnpublishedImage(NamedTuple):
    image: MetadataImage
    records: Sequence[MetadataRecord]


class ControllerRequests(Protocol):
    """This broker's own requests to the active controller."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]: ...

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


class MemberMetadata:
    """The current image and the log of the changes that led to it."""

    def __init__(self, settings: ControllerSettings, publish: Publish) -> None:
        self.image = MetadataImage()
        self.metadata_log = MetadataLog()
        self.active_controller: ActiveController | None = None
        self.forwarding: ControllerRequests | None = None
        self.published_version = -1
        self._settings = settings
        self._publish = publish
        self._unpublished: deque[_UnpublishedImage] = deque()
        self._publishing: asyncio.Task[None] | None = None
        self._is_publishing = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def configs(self) -> ConfigControl:
        """Configurations of the current image."""
        return ConfigControl(self.image, self._settings.node_id, self._settings.static)

    # --- committed changes ---------------------------------------------------------------------

    def advance(
        self,
        image: MetadataImage,
        records: Sequence[MetadataRecord],
        *,
        took_ms: int | None = None,
    ) -> None:
        """Makes `image` current; `records` are the changes from the image before it.

        `took_ms` is the time of their decision and commit, if this broker made them.
        """
        before, self.image = self.image, image
        self.metadata_log.add(MetadataChange(before.version, image.version, records))
        if self._is_publishing:
            self._unpublished.append(_UnpublishedImage(image, records))
            if self._publishing is None:
                self._publishing = asyncio.get_running_loop().create_task(self._publish_all())
        self._notify_listeners()
        # What led to the first image is not news.
        if self._is_publishing and log.isEnabledFor(logging.WARNING):
            node_id = self._settings.node_id
            events = events_between(before, image, records, node_id=node_id, took_ms=took_ms)
            write_events(log, events)

    def begin_publishing(self) -> None:
        """Marks the current image as applied; from now on each later one is applied, too."""
        self._is_publishing = True
        self.published_version = self.image.version
        self._notify_listeners()

    def stop(self) -> None:
        """Stops publishing; changes that are not published yet are dropped."""
        self._is_publishing = False
        self._unpublished.clear()
        if self._publishing is not None:
            self._publishing.cancel()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Calls `listener` for every new image and for every image that this broker has applied."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def next_change(self) -> None:
        """Waits for the next such call."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not changed.done():
                changed.set_result(None)

        self.add_listener(wake)
        try:
            await changed
        finally:
            self.remove_listener(wake)

    async def until_published(self) -> None:
        """Waits until this broker has applied the current image."""
        if self._publishing is not None:
            # A cancelled caller must not cancel the publishing for the others.
            await asyncio.shield(self._publishing)

    async def _publish_all(self) -> None:
        try:
            while self._unpublished:
                step = self._unpublished.popleft()
                try:
                    await self._publish(step.image, step.records)
                except Exception:
                    log.exception(
                        "cannot apply metadata version %d; continuing with the next",
                        step.image.version,
                    )
                self.published_version = step.image.version
                self._notify_listeners()
        finally:
            self._publishing = None

    def _notify_listeners(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    # --- changes --------------------------------------------------------------------------------

    async def decide(
        self, decision: Callable[[MetadataController], ControllerResult[T]]
    ) -> Sequence[T]:
        """Runs one operation of the controller; usually every live broker has applied its results.

        Raises `NotController` unless this broker is the active controller and reaches the store:
        the caller then finds the new controller, if there is one.
        """
        active_controller = require_active(self.active_controller)
        if not active_controller.is_store_reachable:
            raise NotController
        decided = await active_controller.decide(decision)
        # The controller may have changed since. The decision remains valid, and the new controller
        # publishes it.
        await active_controller.until_propagated(decided.version)
        return decided.results

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]:
        """Creates topics on behalf of this broker, through the controller."""
        assert self.forwarding is not None
        return await self.forwarding.create_topics(topics)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Reserves a block of producer ids for this broker."""
        assert self.forwarding is not None
        return await self.forwarding.allocate_producer_ids()
