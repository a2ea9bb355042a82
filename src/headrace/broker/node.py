"""One broker: assembles its parts, and starts and stops them in the right order.

Start: metadata, logs, sockets bound, registration, then the first accept; a client that can connect
gets complete answers. Stop: the broker accepts no new requests, answers the accepted ones, flushes
every log and writes the clean-shutdown marker, within a bounded time. Two brokers in one process
share nothing.

A broker whose log directories have all failed ends by itself, as in Kafka: it could store no
record, and other brokers would wait for it. `ended` has the reason.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from headrace import __version__
from headrace.broker.access.access_control import AccessControl
from headrace.broker.fetch.delayed_fetch import DelayedFetch
from headrace.broker.fetch.fetch_session import FetchSessions
from headrace.broker.maintenance.log_cleaner import LogCleaner
from headrace.broker.maintenance.periodic_tasks import periodic_tasks
from headrace.broker.maintenance.preload_imports import warm_up
from headrace.broker.maintenance.task_scheduler import TaskScheduler
from headrace.broker.membership.cluster_role import ClusterRole
from headrace.broker.membership.producer_ids import ProducerIds
from headrace.broker.membership.standalone import Standalone
from headrace.broker.network.broker_limits import BrokerLimits
from headrace.broker.network.dispatch import Dispatcher, Handle
from headrace.broker.network.server import Server, advertised_endpoints, host_and_port
from headrace.broker.partitions.flusher import Flusher
from headrace.broker.partitions.log_configs import LogConfigs
from headrace.broker.partitions.metadata_publisher import MetadataPublisher, changed_topics
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.broker.partitions.replica_roles import ReplicaRoles, Role, RoleChanged
from headrace.broker.quotas.client_quotas import ClientQuotas
from headrace.broker.quotas.exemption import BrokerExemption
from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.errors import StartupError, StopTimedOut
from headrace.broker.runtime.timers import Timers
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.image import Endpoint, MetadataImage
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import StoreError
from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.protocol.api import ApiKey, ApiSpec
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.security.principal import parse_super_users
from headrace.security.quotas.quota_windows import QuotaWindows
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import LogDirFailed, StorageError
from headrace.storage.files.filesystem import make_directories
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig

if TYPE_CHECKING:
    from headrace.broker.access.delegation_tokens import DelegationTokens
    from headrace.broker.authentication.authentication import Authentication
    from headrace.broker.coordinators.coordinator_registry import CoordinatorRegistry
    from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
    from headrace.broker.http.http_port import HttpPort
    from headrace.broker.lag.consumer_lag import ConsumerLag
    from headrace.broker.membership.broker_lifecycle import BrokerLifecycle
    from headrace.broker.membership.cluster_member import ClusterMember
    from headrace.broker.membership.peers import Peers
    from headrace.broker.metadata.standalone_metadata import Metadata
    from headrace.broker.network.request_meter import RequestMeters
    from headrace.broker.replication.replica_manager import ReplicaManager
    from headrace.broker.replication.replica_mover import ReplicaMover
    from headrace.broker.share.share_partition_manager import SharePartitionManager
    from headrace.broker.telemetry.client_metrics_receiver import ClientMetricsReceiver
    from headrace.broker.tls.tls_listeners import TlsListeners
    from headrace.broker.tracing.request_tracing import RequestTracing
    from headrace.controller.active_controller import ActiveController
    from headrace.coordinator.group.group_shard import GroupShard
    from headrace.coordinator.share_state.share_state_shard import ShareStateShard
    from headrace.coordinator.transaction.transaction_shard import TransactionShard

log = logging.getLogger(__package__)

SESSION_EVICTION_S: Final = 120.0  # Kafka's min.incremental.fetch.session.eviction.ms
ANSWERS_SHARE: Final = 0.5  # of the stop timeout for answers; the other half is for the disk
WITHDRAWAL_S: Final = 5.0  # timeout to deregister; the session would last longer
LOAD_COORDINATORS_AFTER_S: Final = 0.1  # the first requests of a started broker are served before


class Broker:
    """One node: standalone, or a member of a cluster if its settings have `zookeeper.connect`."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        environment: Environment | None = None,
        ephemeral: bool = False,
    ) -> None:
        self.settings = settings
        self.environment = environment or Environment()
        self.clock = self.environment.clock
        self.random = self.environment.random
        self.limits = self._limits_of(MetadataImage())
        self.node_id = settings.node_id
        self.stopping = False
        self._serving = False
        self._stop_requested = False
        self._ending: asyncio.Task[None] | None = None  # the broker has ended by itself
        self.endpoints: tuple[Endpoint, ...] = ()
        self.delayed_fetches: dict[DelayedFetch, None] = {}
        self.fetch_sessions = FetchSessions(
            settings.integer("max.incremental.fetch.session.cache.slots"),
            SESSION_EVICTION_S,
            self.random,
        )
        self._log_configs = LogConfigs(settings.static, settings.node_id)
        self.partitions = PartitionTable(self._open_log)
        self.request_meters: RequestMeters | None = None  # with an HTTP port, like `http`
        self.http: HttpPort | None = None
        self._role_listeners: list[RoleChanged] = [self._coordinator_role_changed]
        self._metadata_in_memory = ephemeral
        self._cluster_role: ClusterRole | None = None
        self.member: ClusterMember | None = None  # the role in a cluster of several brokers
        self._logs: LogManager | None = None
        # Parts that are imported and built at their first use: a broker starts without them.
        self._coordinators: CoordinatorRegistry | None = None
        self._replication: ReplicaManager | None = None
        self._mover: ReplicaMover | None = None
        self._shares: SharePartitionManager | None = None
        self._lag: ConsumerLag | None = None
        self._client_metrics: ClientMetricsReceiver | None = None
        self._known_configs: Mapping[ConfigResource, object] = {}
        self._has_subscriptions = False
        self.tracing: RequestTracing | None = None
        self.tokens = self._delegation_tokens()
        self.tls: TlsListeners | None = None  # if a listener uses TLS
        self.authentication: Authentication | None = None  # with a SASL listener
        self._known_effective: tuple[MetadataImage, EffectiveConfig] | None = None
        self.access = AccessControl(
            lambda: self.metadata.image,
            self.clock,
            is_enforced=bool(settings.string("authorizer.class.name")),
            super_users=parse_super_users(settings.string("super.users") or ""),
            allow_if_no_acl=settings.boolean("allow.everyone.if.no.acl.found"),
            inter_broker_listener=settings.inter_broker_listener.name,
        )
        self.quotas = ClientQuotas(
            _quota_windows(settings, "quota"),
            _quota_windows(settings, "controller.quota"),
            self.clock.monotonic,
            BrokerExemption(
                self.access,
                settings.inter_broker_listener.name,
                lambda: self.is_member,
            ),
        )

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(host_and_port(endpoint.host, endpoint.port) for endpoint in self.endpoints)

    @property
    def cluster_id(self) -> str:
        return self.metadata.image.cluster_id

    @property
    def logs(self) -> LogManager:
        """Available as soon as the data directories are open, early in the start."""
        assert self._logs is not None
        return self._logs

    @property
    def has_logs(self) -> bool:
        return self._logs is not None

    @property
    def is_serving(self) -> bool:
        """Whether the start is complete."""
        return self._serving

    def high_watermarks(self) -> dict[str, int]:
        """The known high watermarks, by log name."""
        return {
            f"{replica.topic}-{replica.index}": replica.known_watermark
            for replica in self.partitions.replicas
            if replica.known_watermark >= 0
        }

    def on_roles_changed(self, listener: RoleChanged) -> None:
        """Calls `listener` for every partition where this broker's role or leader epoch changes."""
        self._role_listeners.append(listener)

    # --- the cluster ----------------------------------------------------------------------------

    @property
    def membership(self) -> "BrokerLifecycle | None":
        """None for a standalone node, like the other properties of this section."""
        return None if self.member is None else self.member.membership

    @property
    def peers(self) -> "Peers | None":
        return None if self.member is None else self.member.peers

    @property
    def is_member(self) -> bool:
        return self.member is not None

    def controller_handler(self, spec: ApiSpec, handle: Handle) -> Handle:
        """A member forwards the request; a standalone node reports errors of its metadata store."""
        if self.member is not None:
            handle = self.member.forwarding.wrap(spec, handle)
        else:
            from headrace.broker.metadata.metadata_store_errors import wrap

            handle = wrap(spec, handle)
        if self.tls is not None:
            handle = self.tls.wrap_handler(spec, handle)
        if spec.key is ApiKey.INCREMENTAL_ALTER_CONFIGS:
            from headrace.broker.maintenance.broker_loggers import wrap_handler

            return wrap_handler(self.node_id, handle)
        return handle

    @property
    def active_controller(self) -> "ActiveController | None":
        """The active controller, while it runs on this broker."""
        return None if self.member is None else self.member.metadata.active_controller

    @property
    def is_controller(self) -> bool:
        return self.member is None or self.active_controller is not None

    @property
    def broker_epoch(self) -> int:
        """The epoch of this incarnation of the broker."""
        if self.member is not None:
            return self.member.broker_epoch
        return self.metadata.image.brokers[self.node_id].epoch

    def _delegation_tokens(self) -> "DelegationTokens | None":
        """None without `delegation.token.secret.key`: delegation tokens are off."""
        if not self.settings.string("delegation.token.secret.key"):
            return None
        from headrace.broker.access.delegation_tokens import DelegationTokens

        return DelegationTokens(self.settings, lambda: self.metadata.image, self.clock)

    # --- coordinators ---------------------------------------------------------------------------

    @property
    def coordinators(self) -> "CoordinatorRegistry":
        """Built by the first request, or by the first internal topic."""
        if self._coordinators is None:
            from headrace.broker.coordinators.coordinator_registry import CoordinatorRegistry

            self._coordinators = CoordinatorRegistry(self)
        return self._coordinators

    @property
    def built_coordinators(self) -> "CoordinatorRegistry | None":
        """None before anything needed a coordinator."""
        return self._coordinators

    @property
    def groups(self) -> "CoordinatorRuntime[GroupShard]":
        return self.coordinators.groups

    @property
    def transactions(self) -> "CoordinatorRuntime[TransactionShard]":
        return self.coordinators.transactions

    @property
    def share_state(self) -> "CoordinatorRuntime[ShareStateShard]":
        return self.coordinators.share_state

    @property
    def replication(self) -> "ReplicaManager":
        """Built when this broker joins a cluster, or by the first fetch of a follower."""
        if self._replication is None:
            from headrace.broker.replication.replica_manager import ReplicaManager

            self._replication = ReplicaManager(self)
        return self._replication

    @property
    def mover(self) -> "ReplicaMover":
        """Built when a replica moves to another directory, or was moving at the last stop."""
        if self._mover is None:
            from headrace.broker.replication.replica_mover import ReplicaMover

            self._mover = ReplicaMover(self)
        return self._mover

    @property
    def shares(self) -> "SharePartitionManager":
        """Built by the first request of a share group."""
        if self._shares is None:
            from headrace.broker.share.share_partition_manager import SharePartitionManager

            self._shares = SharePartitionManager(self)
        return self._shares

    @property
    def built_shares(self) -> "SharePartitionManager | None":
        """None before the first request of a share group."""
        return self._shares

    @property
    def lag(self) -> "ConsumerLag":
        """Built by the first scrape of metrics, or the first request for the lag of consumers."""
        if self._lag is None:
            from headrace.broker.lag.consumer_lag import ConsumerLag

            self._lag = ConsumerLag(self)
        return self._lag

    @cached_property
    def accepts_client_metrics(self) -> bool:
        """Whether clients may push metrics: the setting, and the extra `telemetry`."""
        if not self.settings.boolean("headrace.client.metrics.enable"):
            return False
        from headrace.broker.telemetry.client_metrics_switch import can_receive_client_metrics

        return can_receive_client_metrics(self.metadata.image)

    @property
    def advertises_client_metrics(self) -> bool:
        """Whether ApiVersions has the requests of client metrics: while there is a subscription.

        librdkafka writes a line to its log for each client that sees them, even if it is asked for
        no metrics.
        """
        configs = self.metadata.image.configs
        if configs is not self._known_configs:
            self._known_configs = configs
            self._has_subscriptions = any(
                resource.type is ConfigResourceType.CLIENT_METRICS for resource in configs
            )
        return self._has_subscriptions and self.accepts_client_metrics

    @property
    def client_metrics(self) -> "ClientMetricsReceiver | None":
        """Built by the first client that asks for a subscription; None if the receiver is off."""
        if self._client_metrics is None and self.accepts_client_metrics:
            from headrace.broker.telemetry.client_metrics_receiver import ClientMetricsReceiver

            self._client_metrics = ClientMetricsReceiver(self)
        return self._client_metrics

    def traced_handler(self, key: ApiKey, handle: Handle) -> Handle:
        """The handler itself, unless `headrace.tracing.endpoint` is set."""
        return handle if self.tracing is None else self.tracing.wrap(key, handle)

    def _open_tracing(self) -> None:
        endpoint = self.settings.string("headrace.tracing.endpoint")
        if not endpoint:
            return
        from headrace.broker.tracing.request_tracing import open_tracing

        self.tracing = open_tracing(self, endpoint)

    # --- start ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the broker serves clients; on an error nothing is left open."""
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[LogDirFailed] = self.loop.create_future()
        """The reason why the broker has ended by itself; `abort` then releases its resources."""
        self.offload = self.environment.offload(self.loop)
        self.flusher = Flusher(self.loop, self.offload)
        self.timers = Timers(self.loop, self.clock)
        dispatcher = self._dispatcher()
        self.server = Server(
            self.loop,
            self.clock,
            dispatcher,
            self.limits.server,
            accepts_sockets=self.environment.accepts_sockets,
        )
        if any(listener.uses_sasl for listener in self.settings.listeners):
            from headrace.broker.authentication.authentication import Authentication

            self.authentication = Authentication(self, dispatcher.dispatch)
            if self.tokens is not None:
                self.authentication.find_token = self.tokens.login
        self.task_scheduler = TaskScheduler(self.loop, self.timers, self._count_full_logs)
        self.cleaner = LogCleaner(self)
        try:
            await self._start()
        except (StorageError, StoreError, OSError) as error:
            self.abort()
            raise StartupError(str(error)) from error
        except BaseException:
            self.abort()
            raise

    def _dispatcher(self) -> Dispatcher:
        """Requests are counted only if there is an HTTP port that shows the counters."""
        if self.settings.http_listener is None:
            return Dispatcher(self)
        from headrace.broker.network.metered_dispatch import MeteredDispatcher
        from headrace.broker.network.request_meter import RequestMeters
        from headrace.metrics.topic_traffic import BrokerTraffic

        self.partitions.traffic = BrokerTraffic()
        self.request_meters = RequestMeters(self.clock.monotonic)
        return MeteredDispatcher(self, self.request_meters, self.clock.monotonic)

    async def _start(self) -> None:
        began_s = self.clock.monotonic()
        if not self.settings.log_dirs:
            msg = "no data directory: set log.dirs, or use --data or --ephemeral"
            raise StartupError(msg)
        if self.request_meters is not None:
            from headrace.broker.http.http_port import HttpPort

            self.http = HttpPort(self)
            await self.http.bind()
        for directory in self.settings.log_dirs:
            make_directories(self.environment.files, directory)
        if self.settings.generates_id:
            from headrace.broker.membership.broker_id import find_broker_id

            self._set_node_id(await find_broker_id(self.settings, self.environment))
        role = self._cluster_role = self._choose_cluster_role()
        await role.open()
        self.metadata: Metadata = role.metadata
        self._fast_path_acls = self.metadata.image.acls
        if self.member is not None:
            # Before the image is applied, which may take long.
            self.member.metadata.add_listener(self._drop_fast_paths_after_acl_change)
        self.producer_ids = ProducerIds(self.metadata)
        self._open_tracing()
        await self._open_tls()
        if self.http is not None:
            await self.http.serve()
        backlog = self.settings.integer("socket.listen.backlog.size")
        bound = [
            (listener, await self.server.bind(listener, backlog))
            for listener in self.settings.listeners
        ]
        self.endpoints = advertised_endpoints(
            bound, self.settings.advertised_listeners, self.environment.host_name
        )
        await role.join()
        if self.tls is not None:
            await self.tls.open_all(self.effective)
            if self.http is not None:
                await self.http.serve()
        for warning in self.settings.warnings:
            log.warning(warning)
        self.task_scheduler.start(periodic_tasks(self))
        await self.server.start()
        if self.logs.failure is not None:
            raise self.logs.failure
        self._serving = True
        self._log_started(began_s)
        if len(self.logs.futures):
            self.mover.resume()
        if not INTERNAL_TOPICS.isdisjoint(self.metadata.image.topics):
            # On the loop's clock, even if a test moves the broker's clock by hand.
            self.loop.call_later(LOAD_COORDINATORS_AFTER_S, self._load_coordinators)
        warm_up(self.loop, lambda: self.stopping)

    def _log_started(self, began_s: float) -> None:
        zookeeper = self.settings.string("zookeeper.connect")
        log.info(
            "broker started",
            extra={
                "version": __version__,
                "broker": self.node_id,
                "epoch": self.broker_epoch,
                "cluster": self.cluster_id,
                "listeners": ",".join(
                    f"{each.listener}://{host_and_port(each.host, each.port)}"
                    for each in self.endpoints
                ),
                "log_dirs": ",".join(self.settings.log_dirs),
                "logs": len(self.logs),
                "metadata": f"ZooKeeper at {zookeeper}" if zookeeper else "this node",
                "ms": round((self.clock.monotonic() - began_s) * 1000),
            },
        )

    async def _open_tls(self) -> None:
        """Prepares the server for listeners other than PLAINTEXT."""
        listeners = self.settings.listeners
        self.server.authentication_timeout_s = (
            self.settings.integer("headrace.authentication.timeout.ms") / 1000
        )
        if len(listeners) > 1:
            self.server.quotas.exempt_listener = self.settings.inter_broker_listener.name
        if self.settings.tls_listeners:
            from headrace.broker.tls.tls_listeners import TlsListeners

            self.tls = self.server.tls = TlsListeners(self)
            await self.tls.open(self._effective_config(self.metadata.image))
        if self.authentication is not None:
            await self.authentication.open()

    def _set_node_id(self, node_id: int) -> None:
        """Sets the id; runs before any part that uses it is built."""
        self.settings = self.settings.with_id(node_id)
        self.node_id = node_id
        self._log_configs = LogConfigs(self.settings.static, node_id)

    def _choose_cluster_role(self) -> ClusterRole:
        store = self.environment.cluster_store(self.settings, self.clock)
        if store is None:
            return Standalone(self, in_memory=self._metadata_in_memory)
        from headrace.broker.membership.cluster_member import ClusterMember

        self.member = ClusterMember(self, store)
        return self.member

    def open_logs(
        self, cluster_id: str | None, image: MetadataImage, *, metadata_version: int | None = None
    ) -> None:
        """Opens the data directories, which must be this cluster's or new."""
        self._logs = LogManager(
            self.settings.log_dirs,
            self.environment.files,
            self.clock,
            new_id=lambda: self.random.randbytes(16),
            node_id=self.node_id,
            cluster_id=cluster_id,
            metadata_version=metadata_version,
            max_open_files=self.settings.integer("headrace.max.open.files"),
            on_failure=self._notify_directory_failed,
        )
        self.logs.open(lambda topic: self._log_configs.config_of(image, topic))
        roles = ReplicaRoles(
            self.node_id, self.partitions, self.logs, self.clock, self._role_listeners
        )
        self._metadata_publisher = MetadataPublisher(
            roles, self.partitions, self.logs, self._log_configs.config_of, self._apply_limits
        )

    def load_roles(self, image: MetadataImage) -> None:
        """Assigns the replica roles of a starting broker."""
        self._metadata_publisher.load(image)
        self._apply_limits(image)
        self._apply_quotas(image)

    def _coordinator_role_changed(
        self, topic: str, index: int, before: Role | None, after: Role | None
    ) -> None:
        """Coordinators move with the leadership of their partitions."""
        if topic not in INTERNAL_TOPICS or before is after:
            return
        if self._coordinators is not None or (self._serving and isinstance(after, SoleLeader)):
            self.coordinators.role_changed(topic, index)

    def _load_coordinators(self) -> None:
        if not self.stopping:
            self.coordinators.load()

    async def publish(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """Applies the image after these records to this broker."""
        self._drop_fast_paths_after_acl_change()
        if self.authentication is not None:
            self.authentication.metadata_changed(records)
        changed = changed_topics(records, self.partitions)
        await self._metadata_publisher.publish(image, records)
        self._apply_quotas(image)
        if changed and self._coordinators is not None:
            self._coordinators.topics_changed(changed)

    def _drop_fast_paths_after_acl_change(self) -> None:
        """A fast path serves requests like one that was allowed."""
        acls = self.metadata.image.acls
        if acls is not self._fast_path_acls:
            self._fast_path_acls = acls
            self.server.drop_fast_paths()

    @property
    def effective(self) -> EffectiveConfig:
        """The effective settings of the current image."""
        image = self.metadata.image
        known = self._known_effective
        if known is None or known[0] is not image:
            known = self._known_effective = (image, self._effective_config(image))
        return known[1]

    def _effective_config(self, image: MetadataImage) -> EffectiveConfig:
        return EffectiveConfig(self.settings.static, self.settings.node_id, image)

    def _apply_limits(self, image: MetadataImage) -> None:
        """Applies the settings that may change while the broker runs."""
        self.limits = self._limits_of(image)
        self.server.apply_limits(self.limits.server)
        if self.tls is not None:
            self.tls.settings_changed(self._effective_config(image))

    def _limits_of(self, image: MetadataImage) -> BrokerLimits:
        return BrokerLimits.from_config(self._effective_config(image), self.settings.listeners)

    def _apply_quotas(self, image: MetadataImage) -> None:
        if self.quotas.update(image.quotas):
            # A fast path does not measure the time of its requests.
            measures = self.quotas.limits_request_time
            self.server.allow_fast_paths(allowed=not measures, reason="request_percentage")
            self.server.throttle_addresses(self.quotas.connection_throttle_s)

    def _count_full_logs(self, directory: str | None) -> int:
        """The number of logs in this directory, or in all, whose last append failed on a full
        disk."""
        return sum(
            len(each.state.full) for each in self.logs.directories if directory in (None, each.path)
        )

    def _open_log(self, replica: Replica, config: LogConfig) -> Log:
        opened = self.logs.get_or_create(replica.topic, replica.index, replica.topic_id, config)
        opened.load()
        if opened.latest_epoch > replica.epoch:
            log.error(
                "a log has a later leader epoch than the metadata: was ZooKeeper restored from an "
                "old backup?",
                extra={
                    "log": opened.name,
                    "leader_epoch_in_log": opened.latest_epoch,
                    "leader_epoch_in_metadata": replica.epoch,
                },
            )
        if opened.has_overdue_flush:
            self.loop.call_soon(self._flush_if_overdue, replica)
        return opened

    def _flush_if_overdue(self, replica: Replica) -> None:
        """Flushes the records that a leader found in its log, if its topic requires a flush."""
        if isinstance(replica, SoleLeader) and replica.flush_pending and not replica.closed:
            # a failing disk has already logged the error
            self.flusher.flush(replica).add_done_callback(lambda done: done.exception())

    # --- stop -----------------------------------------------------------------------------------

    async def stop(self, *, timeout_s: float | None = None) -> None:
        """Answers accepted requests, flushes all logs, writes the clean-shutdown marker."""
        self._stop_requested = True
        if self._ending is not None:
            await self._ending
            self.abort()
            return
        if timeout_s is None:
            timeout_s = self.settings.integer("headrace.stop.timeout.ms") / 1000
        role = self._cluster_role
        assert role is not None  # the broker has started
        began_s = self.clock.monotonic()
        log.info("broker stops", extra={"broker": self.node_id, "timeout_s": timeout_s})
        await role.leave(timeout_s)
        self.stopping = True
        self.server.close_listeners()
        for delayed in tuple(self.delayed_fetches):
            delayed.finish()
        self._stop_parts(answer_followers=True)
        self.timers.close()
        await self.server.drain(timeout_s * ANSWERS_SHARE)
        await role.withdraw()
        await self.task_scheduler.stop()
        if self.tracing is not None:
            await self.offload(self.tracing.close)
        # In a thread: during thousands of fsyncs the loop must still handle a second signal.
        closing = self.offload(
            self.logs.close,
            clean=True,
            high_watermarks=self.high_watermarks(),
            broker_epoch=role.broker_epoch,
        )
        done, _ = await asyncio.wait([closing], timeout=timeout_s * (1 - ANSWERS_SHARE))
        if not done:
            msg = f"the logs were not on disk within {timeout_s:g} s (headrace.stop.timeout.ms)"
            raise StopTimedOut(msg)
        closing.result()
        self._release_resources()
        ms = round((self.clock.monotonic() - began_s) * 1000)
        log.info("broker stopped", extra={"broker": self.node_id, "ms": ms})

    def _stop_parts(self, *, answer_followers: bool) -> None:
        """Stops the parts that were built."""
        if self.authentication is not None:
            self.authentication.stop()
        if self.tls is not None:
            self.tls.stop()
        if self._lag is not None:
            self._lag.stop()
        if self._mover is not None:
            self._mover.stop()
        if self._replication is not None:
            if answer_followers:
                self._replication.finish_waits()
            self._replication.stop()
        if self._shares is not None:
            self._shares.stop()
        if self._coordinators is not None:
            self._coordinators.stop()

    async def wait_until_ended(self, stop_requested: "asyncio.Future[Any]") -> None:
        """Returns when a stop is requested, or when the broker has `ended` by itself."""
        either: list[asyncio.Future[Any]] = [stop_requested, self.ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    def _notify_directory_failed(self) -> None:
        """Runs in any thread."""
        self.loop.call_soon_threadsafe(self._end_without_directories)

    def _end_without_directories(self) -> None:
        """Ends the broker if no log directory is left; a start and a stop check this themselves."""
        failure = self.logs.failure
        if failure is None or not self._serving or self.stopping or self._stop_requested:
            return
        log.critical(
            "the broker stops, because no log directory works any more: check the disk (is there "
            "free space?) and start it again",
            extra={"broker": self.node_id, "reason": str(failure)},
        )
        self._stop_at_once()
        assert self._cluster_role is not None  # the broker serves clients
        self._ending = self.loop.create_task(self._withdraw_and_end(self._cluster_role, failure))

    async def _withdraw_and_end(self, role: ClusterRole, failure: LogDirFailed) -> None:
        """Deregisters, so that other brokers need not wait for the session timeout."""
        try:
            async with asyncio.timeout(WITHDRAWAL_S):
                await role.withdraw()
        except TimeoutError:
            log.warning(
                "deregistration timed out; other brokers wait for the session timeout",
                extra={"broker": self.node_id, "timeout_s": WITHDRAWAL_S},
            )
        finally:
            if not self.ended.done():
                self.ended.set_result(failure)

    def abort(self) -> None:
        """Stops at once: no answers, no flush, no marker; the next start recovers."""
        self._stop_at_once()
        if self._logs is not None:
            self._logs.close(clean=False)
        self._release_resources()

    def _stop_at_once(self) -> None:
        """Closes all connections and stops all background work."""
        self.stopping = True
        if self._cluster_role is not None:
            self._cluster_role.crash()
        self.timers.close()
        self._stop_parts(answer_followers=False)
        self.task_scheduler.cancel()
        self.server.close_listeners()
        self.server.abort()

    def _release_resources(self) -> None:
        if self._client_metrics is not None:
            self._client_metrics.stop()
        if self.http is not None:
            self.http.close()
        if self._cluster_role is not None:
            self._cluster_role.close()
        self.offload.close()


def _quota_windows(settings: BrokerSettings, prefix: str) -> QuotaWindows:
    return QuotaWindows(
        settings.integer(f"{prefix}.window.num"),
        float(settings.integer(f"{prefix}.window.size.seconds")),
    )
