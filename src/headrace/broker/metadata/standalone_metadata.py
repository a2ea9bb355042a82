"""The broker's view of the cluster, and the one way to change it.

Changes are decided one at a time against the current image, stored, applied, and made real on
this broker (logs created, reconfigured or deleted) before the answer goes out: who was told that
a topic exists can use it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from headrace.broker.runtime.offload import Offload
from headrace.cluster.image import MetadataImage
from headrace.cluster.records import MetadataRecord
from headrace.cluster.store import MetadataStore, StoreError
from headrace.controller.broker_registration import ProducerIdBlock
from headrace.controller.config_changes import ConfigControl
from headrace.controller.decisions import Decisions
from headrace.controller.result import ApiError, ControllerResult
from headrace.controller.topic_changes import CreatedTopic, NewTopic
from headrace.protocol.errors import ErrorCode

T = TypeVar("T")
Publish = Callable[[MetadataImage, Sequence[MetadataRecord]], Awaitable[None]]


class MetadataView(Protocol):
    """The current image, for parts that change nothing."""

    @property
    def image(self) -> MetadataImage: ...


class Metadata(MetadataView, Protocol):
    """What a broker knows of its cluster, and how it changes it: alone or as a member."""

    @property
    def configs(self) -> ConfigControl: ...

    async def decide(self, decision: Callable[[Decisions], ControllerResult[T]]) -> Sequence[T]:
        """Runs one operation to its end; raises `NotController` where another broker decides."""
        ...

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]: ...

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


class StandaloneMetadata:
    """Holds the image; runs the controller of an embedded node."""

    def __init__(
        self, controller: Decisions, store: MetadataStore, offload: Offload, publish: Publish
    ) -> None:
        self._controller = controller
        self._store = store
        self._offload = offload
        self._publish = publish
        self._turn = asyncio.Lock()

    @property
    def image(self) -> MetadataImage:
        return self._controller.image

    @property
    def configs(self) -> ConfigControl:
        """Configurations as the current image has them."""
        return self._controller.configs

    async def decide(self, decision: Callable[[Decisions], ControllerResult[T]]) -> Sequence[T]:
        """Runs one operation to its end; its results hold when this returns."""
        async with self._turn:
            outcome = decision(self._controller)
            await self._commit(outcome.records)
            return outcome.results

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]:
        """Creates topics for this broker itself."""
        try:
            return await self.decide(lambda controller: controller.create_topics(topics))
        except StoreError as failure:
            error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
            return [CreatedTopic(topic.name, error) for topic in topics]

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids for this broker alone."""
        node_id = self._controller.node_id
        epoch = self.image.brokers[node_id].epoch
        try:
            blocks = await self.decide(
                lambda controller: controller.allocate_producer_ids(node_id, epoch)
            )
        except StoreError as failure:
            return ProducerIdBlock(error=ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)))
        return blocks[0]

    async def record(self, records: Sequence[MetadataRecord]) -> None:
        """Commits records that need no decision, e.g. a node's first ones."""
        async with self._turn:
            await self._commit(records)

    async def _commit(self, records: Sequence[MetadataRecord]) -> None:
        if not records:
            return
        controller = self._controller
        image = controller.image
        await self._offload(self._store.commit, records, expected_version=image.version)
        # Nobody else changes the image while this one has the turn.
        controller.image = image.apply(records)
        await self._publish(controller.image, records)
