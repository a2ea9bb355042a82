"""A cluster member's view of the metadata: it follows what the controller has committed.

Images are published in order, each one after the one before it is real on this broker: leaders,
logs, configurations. Changes are decided by the controller, which may be this broker.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from headrace.broker.metadata.standalone_metadata import Publish
from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_log import MetadataChange, MetadataLog
from headrace.cluster.records import MetadataRecord
from headrace.controller.broker_registration import ProducerIdBlock
from headrace.controller.config_changes import ConfigControl
from headrace.controller.decisions import Decisions
from headrace.controller.errors import NotController
from headrace.controller.result import ControllerResult
from headrace.controller.topic_changes import CreatedTopic, NewTopic

if TYPE_CHECKING:
    from headrace.controller.active_controller import ActiveController

T = TypeVar("T")

log = logging.getLogger(__name__)


class _Step(NamedTuple):
    image: MetadataImage
    records: Sequence[MetadataRecord]


class ControllerRequests(Protocol):
    """What this broker asks of the active controller for itself."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]: ...

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


class MemberMetadata:
    """Holds the image and the journal of how it came about."""

    def __init__(self, settings: ControllerSettings, publish: Publish) -> None:
        self.image = MetadataImage()
        self.journal = MetadataLog()
        self.active_controller: ActiveController | None = None
        self.forwarding: ControllerRequests | None = None
        self.published_version = -1
        self._settings = settings
        self._publish = publish
        self._steps: deque[_Step] = deque()
        self._publishing: asyncio.Task[None] | None = None
        self._begun = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def configs(self) -> ConfigControl:
        """Configurations as the current image has them."""
        return ConfigControl(self.image, self._settings.node_id, self._settings.static)

    # --- what the controller committed ----------------------------------------------------------

    def advance(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """The next image, and how it differs from this one."""
        self.journal.add(MetadataChange(self.image.version, image.version, records))
        self.image = image
        if self._begun:
            self._steps.append(_Step(image, records))
            if self._publishing is None:
                self._publishing = asyncio.get_running_loop().create_task(self._publish_all())
        self._tell()

    def begin(self) -> None:
        """The current image is real here: from now on each further one is made so."""
        self._begun = True
        self.published_version = self.image.version
        self._tell()

    def stop(self) -> None:
        """What is not published by now never will be."""
        self._begun = False
        self._steps.clear()
        if self._publishing is not None:
            self._publishing.cancel()

    def on_news(self, told: Callable[[], None]) -> None:
        """`told` hears of every new image, and of every one that became real."""
        self._listeners.append(told)

    def forget(self, told: Callable[[], None]) -> None:
        if told in self._listeners:
            self._listeners.remove(told)

    async def next_news(self) -> None:
        """Returns at the next of these."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told() -> None:
            if not news.done():
                news.set_result(None)

        self.on_news(told)
        try:
            await news
        finally:
            self.forget(told)

    async def until_published(self) -> None:
        """Returns when this broker has done what the current image asks for."""
        if self._publishing is not None:
            # Nobody who waits may end it for the others.
            await asyncio.shield(self._publishing)

    async def _publish_all(self) -> None:
        try:
            while self._steps:
                step = self._steps.popleft()
                try:
                    await self._publish(step.image, step.records)
                except Exception:
                    log.exception("metadata did not take effect here")
                self.published_version = step.image.version
                self._tell()
        finally:
            self._publishing = None

    def _tell(self) -> None:
        for told in tuple(self._listeners):
            told()

    # --- changes --------------------------------------------------------------------------------

    async def decide(self, decision: Callable[[Decisions], ControllerResult[T]]) -> Sequence[T]:
        """One operation of the controller; its results hold on every live broker, as a rule.

        Raises `NotController` unless this broker is the active controller.
        """
        active_controller = self.active_controller
        if active_controller is None:
            raise NotController
        decided = await active_controller.decide(decision)
        # The term may have ended since: what was decided stays, and is told by who comes next.
        await active_controller.spread(decided.version)
        return decided.results

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]:
        """Creates topics for this broker itself, wherever the controller is."""
        assert self.forwarding is not None
        return await self.forwarding.create_topics(topics)

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids for this broker alone."""
        assert self.forwarding is not None
        return await self.forwarding.allocate_producer_ids()
