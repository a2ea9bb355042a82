"""The broker's view of the cluster, and the only way to change it.

Changes are decided one at a time against the current image, stored, and applied to this broker
(logs are created, reconfigured or deleted) before the response is sent. A client can use a topic as
soon as it learns that the topic exists.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from headrace.broker.runtime.offload import Offload
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import MetadataStore, StoreError
from headrace.controller.config_changes import ConfigControl
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.producer_id_blocks import ProducerIdBlock
from headrace.controller.result import ApiError, ControllerResult
from headrace.controller.topic_changes import CreatedTopic, NewTopic
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode

T = TypeVar("T")
Publish = Callable[[MetadataImage, Sequence[MetadataRecord]], Awaitable[None]]


class MetadataView(Protocol):
    """The current image, for components that only read it."""

    @property
    def image(self) -> MetadataImage: ...


class Metadata(MetadataView, Protocol):
    """The metadata of a broker and how it is changed, standalone or in a cluster."""

    @property
    def configs(self) -> ConfigControl: ...

    async def decide(
        self, decision: Callable[[MetadataController], ControllerResult[T]]
    ) -> Sequence[T]:
        """Runs one operation to its end; raises `NotController` on other brokers."""
        ...

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]: ...

    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


class StandaloneMetadata:
    """Holds the image; runs the controller of an embedded node."""

    def __init__(
        self,
        controller: MetadataController,
        store: MetadataStore,
        offload: Offload,
        publish: Publish,
    ) -> None:
        self._controller = controller
        self._store = store
        self._offload = offload
        self._publish = publish
        self._decision_lock = asyncio.Lock()

    @property
    def image(self) -> MetadataImage:
        return self._controller.image

    @property
    def configs(self) -> ConfigControl:
        """Configurations of the current image."""
        return self._controller.configs

    async def decide(
        self, decision: Callable[[MetadataController], ControllerResult[T]]
    ) -> Sequence[T]:
        """Runs one operation to its end; its results are applied when this returns."""
        async with self._decision_lock:
            outcome = decision(self._controller)
            await self._commit(outcome.records)
            return outcome.results

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]:
        """Creates topics on behalf of this broker."""
        from headrace.broker.metadata.change_log import OWN_REQUEST, decide_logged

        try:
            return await decide_logged(
                self,
                OWN_REQUEST,
                ApiKey.CREATE_TOPICS,
                lambda controller: controller.create_topics(topics),
            )
        except StoreError as failure:
            error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
            return [CreatedTopic(topic.name, error) for topic in topics]

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Reserves a block of producer ids for this broker."""
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
        """Commits records that need no decision, for example the first ones of a node."""
        async with self._decision_lock:
            await self._commit(records)

    async def _commit(self, records: Sequence[MetadataRecord]) -> None:
        if not records:
            return
        controller = self._controller
        image = controller.image
        await self._offload(self._store.commit, records, expected_version=image.version)
        # Only the current operation changes the image; all others wait.
        controller.image = image.apply(records)
        await self._publish(controller.image, records)
