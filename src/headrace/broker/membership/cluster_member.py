"""A broker in a cluster: the cluster stores its metadata, and the controller decides it.

Order of a start: the metadata store, the cluster id (checked against the data directories), the
logs, the registration. The broker takes roles only from an image that has this registration: an
older one may still contain the leaderships of its last incarnation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.membership.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from headrace.broker.membership.cluster_role import ClusterRoleHost
from headrace.broker.membership.forwarding import Forwarding
from headrace.broker.membership.peers import PeerConnector, Peers
from headrace.broker.membership.producer_ids import ProducerIds
from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.broker.network.dispatch import RequestHost, handler_of
from headrace.broker.partitions.stray_partitions import update_stray_partitions
from headrace.broker.runtime.errors import StartupError
from headrace.client.network.connection import connect
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_store import ClusterStore, Elected, StoreError
from headrace.cluster.topology import BrokerRegistration as RegisteredBroker
from headrace.controller.active_controller import ActiveController
from headrace.controller.leader_election import live_ids
from headrace.controller.metadata_controller import MetadataController
from headrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from headrace.protocol.messages.leave_cluster import (
    LeaveClusterRequest,
    LeaveClusterResponse,
    RemainingPartition,
)
from headrace.protocol.types import encode_uuid
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.tls.tls_listeners import TlsListeners

log = logging.getLogger(__package__)

_UNREACHABLE: Final = (
    "are the other brokers' inter.broker.listener.name addresses reachable from here?"
)
LEAVING_SHARE: Final = 0.5
"""The part of the stop timeout that may be spent on handing over leaderships."""


class Replication(Protocol):
    """The replicas of a member."""

    def start(
        self,
        peers: Peers,
        ask: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
    ) -> None: ...


class ClusterMemberHost(ClusterRoleHost, RequestHost, Protocol):
    """The part of the broker that a member uses."""

    tls: "TlsListeners | None"

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def replication(self) -> Replication: ...


class ClusterMember:
    """The parts of a broker that only a cluster member has."""

    def __init__(self, broker: ClusterMemberHost, store: ClusterStore) -> None:
        settings = broker.settings
        self._broker = broker
        self._store = store
        self._producer_ids: ProducerIds | None = None  # once it has joined
        self.metadata = MemberMetadata(settings.controller(), broker.publish)
        self.peers = Peers(
            broker.node_id,
            lambda id_: self.membership.address_of(id_),
            lambda id_: self.membership.incarnation_of(id_),
            self._connector(),
        )
        self.forwarding = self.metadata.forwarding = Forwarding(
            broker.node_id,
            lambda: self.membership,
            partial(handler_of, broker),
            broker.access,
            broker.quotas,
        )
        self.membership = BrokerLifecycle(
            store,
            self.metadata,
            self.peers,
            self._make_active_controller,
            self.forwarding.answer_here,
            node_id=broker.node_id,
            listener=settings.inter_broker_listener,
            detect_crashes=settings.boolean("headrace.fast.failure.detection"),
        )
        self.metadata.add_listener(self.peers.drop_earlier_incarnations)

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    @property
    def store_disconnected_s(self) -> float | None:
        """How long the metadata store has been unreachable; None while it is connected."""
        return self._store.disconnected_s

    def _connector(self) -> PeerConnector:
        broker, listener = self._broker, self._broker.settings.inter_broker_listener
        if listener.security_protocol == "PLAINTEXT":
            return connect
        from headrace.broker.membership.peer_security import SecurePeerConnector

        return SecurePeerConnector(
            listener,
            lambda: None if broker.tls is None else broker.tls.peer_context,
            broker.settings.inter_broker_login,
            broker.random,
        )

    def _make_active_controller(self, elected: Elected) -> ActiveController:
        settings = self._broker.settings
        controller = MetadataController(
            self.metadata.image, settings.controller(), self._broker.random
        )
        imbalance = settings.integer("leader.imbalance.per.broker.percentage") / 100
        rebalances = settings.boolean("auto.leader.rebalance.enable")
        logs = self._broker.logs
        after_restore, logs.accepts_any_metadata = logs.accepts_any_metadata, False
        return ActiveController(
            self._store,
            elected,
            controller,
            self.metadata,
            max_imbalance=imbalance if rebalances else None,
            rebalance_s=settings.integer("leader.imbalance.check.interval.seconds"),
            after_restore=after_restore,
        )

    # --- start ----------------------------------------------------------------------------------

    async def open(self) -> None:
        broker = self._broker
        await self._store.open()
        try:
            # A directory of a cluster never joins a new one: its logs would be unknown there and be
            # deleted.
            proposed = encode_uuid(broker.random.randbytes(16))
            cluster_id = await self._store.cluster_id(proposed)
            # Before this broker registers: an election counts as a version and would hide missing
            # ones.
            stored = await self._store.stored_version()
            broker.open_logs(cluster_id, MetadataImage(), metadata_version=stored)
        except BaseException:
            await self._store.close()
            raise

    async def join(self) -> None:
        broker = self._broker
        limit_s = broker.settings.integer("initial.broker.registration.timeout.ms") / 1000
        directory = broker.logs.directories[0]
        identity = BrokerIdentity(
            RegisteredBroker(
                broker.node_id,
                -1,
                broker.endpoints,
                broker.settings.string("broker.rack"),
                broker.random.randbytes(16),
                directories=broker.logs.directory_ids,
            ),
            storage_id=directory.meta.directory_id if directory.meta is not None else "",
            last_epoch=broker.logs.clean_epoch,
            cluster_id=broker.logs.cluster_id or "",
        )
        try:
            await self.membership.start(identity)
            async with asyncio.timeout(limit_s):
                await self.membership.joined()
        except TimeoutError:
            why = self.membership.last_poll_failure
            await self._abort_join()
            raise StartupError(
                f"no controller accepted broker {broker.node_id} within {limit_s:g} s "
                f"(initial.broker.registration.timeout.ms): {why or _UNREACHABLE}"
            ) from None
        except BaseException:
            await self._abort_join()
            raise
        # No await from here on: the hosted replicas must match the image.
        image = self.metadata.image
        update_stray_partitions(broker.logs, image, broker.node_id)
        broker.load_roles(image)
        self.metadata.begin_publishing()
        broker.producer_ids.prepare()
        broker.replication.start(self.peers, self._send_alter_partition)

    async def _send_alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        timeout_s = self._broker.settings.integer("controller.socket.timeout.ms") / 1000
        return await self.membership.ask_controller(
            request, AlterPartitionResponse, timeout_s=timeout_s
        )

    async def _abort_join(self) -> None:
        await self.membership.stop()
        self.peers.hang_up()
        await self._store.close()

    # --- stop -----------------------------------------------------------------------------------

    async def leave(self, timeout_s: float) -> None:
        settings = self._broker.settings
        if self._producer_ids is not None:
            self._producer_ids.stop()
        if settings.boolean("controlled.shutdown.enable"):
            try:
                async with asyncio.timeout(timeout_s * LEAVING_SHARE):
                    await self._hand_over_leaderships(
                        settings.integer("controlled.shutdown.max.retries"),
                        settings.integer("controlled.shutdown.retry.backoff.ms") / 1000,
                    )
            except TimeoutError:
                log.warning(
                    "controlled shutdown timed out; stopping while still leading partitions",
                    extra={"broker": self._broker.node_id},
                )
        await self.membership.stop()

    async def _hand_over_leaderships(self, attempts: int, pause_s: float) -> None:
        request = LeaveClusterRequest(broker_id=self._broker.node_id)
        for attempt in range(max(1, attempts)):
            if attempt:
                await asyncio.sleep(pause_s)
            request.broker_epoch = self.broker_epoch
            answer = await self.forwarding.to_controller(request, LeaveClusterResponse)
            if answer is None or answer.error_code:
                continue
            while self.metadata.published_version < answer.version:
                await self.metadata.next_change()
            if not self._may_be_led_by_others(answer.remaining):
                return

    def _may_be_led_by_others(self, remaining: Sequence[RemainingPartition]) -> bool:
        """Whether waiting may help: another live broker has a replica and may catch up."""
        image = self.metadata.image
        others = live_ids(image) - {self._broker.node_id}
        return any(
            not others.isdisjoint(partition.replicas)
            for each in remaining
            if (partition := image.partition(each.topic, each.partition_index)) is not None
        )

    async def withdraw(self) -> None:
        self.peers.hang_up()
        self.metadata.stop()
        with suppress(StorageError):  # already logged
            self._broker.logs.save_metadata_version(self.metadata.image.version)
        try:
            await self._store.close()
        except StoreError as error:
            log.warning(
                "cannot close the metadata store session; it ends when it times out",
                extra={"error": str(error)},
            )

    def crash(self) -> None:
        if self._producer_ids is not None:
            self._producer_ids.stop()
        self.membership.crash()
        self.metadata.stop()
        self.peers.hang_up()

    def close(self) -> None:
        """`withdraw` and `crash` have closed everything."""
