"""The controller of one cluster: requests in, metadata records out. Pure.

A method decides against the current `image` and changes nothing itself. The caller commits the
records of the result to the store, applies them (`controller.image = controller.image.apply(...)`)
and then answers with the results. It finishes one operation before it starts the next, because a
result is valid only for the image it was decided on.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.features import initial_features
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ClusterNamed, ControllerElected, MetadataRecord
from headrace.cluster.topology import ZERO_UUID, Endpoint
from headrace.controller import (
    acl_changes,
    broker_registration,
    feature_changes,
    producer_id_blocks,
    topic_changes,
)
from headrace.controller.acl_changes import DeletedAcls
from headrace.controller.broker_registration import RegistrationResult
from headrace.controller.config_changes import AlteredConfig, ConfigAlteration, ConfigControl
from headrace.controller.config_validation import check_topic
from headrace.controller.feature_changes import FeatureUpdate
from headrace.controller.producer_id_blocks import ProducerIdBlock
from headrace.controller.result import ApiError, ControllerResult, ResultT
from headrace.controller.topic_changes import (
    ChargePartitions,
    ConfigCheck,
    CreatedTopic,
    DeletedTopic,
    GrownTopic,
    MorePartitions,
    NewTopic,
    TopicDefaults,
    TopicRef,
    without_quota,
)
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import encode_uuid
from headrace.security.authorization.acl import Acl
from headrace.security.authorization.acl_filter import AclFilter

if TYPE_CHECKING:
    from headrace.controller.leader_election import Rules
    from headrace.controller.quota_changes import AlteredQuota, QuotaAlteration
    from headrace.controller.scram_changes import AlteredUser, ScramDeletion, ScramUpsertion


class MetadataController:
    """Decides every metadata change. The module docstring says how to use a result."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, rng: Random) -> None:
        self.image = image
        self._settings = settings
        self._rng = rng
        self._rules: tuple[object, Rules] | None = None

    @property
    def node_id(self) -> int:
        return self._settings.node_id

    def bootstrap(self, cluster_id: str | None = None) -> tuple[MetadataRecord, ...]:
        """The first records of an empty store, and those that make this node its controller."""
        records: list[MetadataRecord] = []
        if not self.image.cluster_id:
            records.append(ClusterNamed(cluster_id or self._random_cluster_id()))
            records.extend(initial_features())
        records.append(ControllerElected(self._settings.node_id, self.image.controller_epoch + 1))
        return tuple(records)

    def register_broker(
        self,
        broker_id: int,
        endpoints: Sequence[Endpoint],
        *,
        rack: str | None = None,
        incarnation_id: bytes = ZERO_UUID,
        clean_restart: bool = False,
    ) -> ControllerResult[RegistrationResult]:
        return broker_registration.register_broker(
            self.image,
            broker_id,
            endpoints,
            rack=rack,
            incarnation_id=incarnation_id,
            clean_restart=clean_restart,
        )

    def fence_broker(self, broker_id: int) -> ControllerResult[ApiError]:
        return broker_registration.fence_standalone_broker(self.image, broker_id)

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> ControllerResult[ProducerIdBlock]:
        return producer_id_blocks.allocate_producer_ids(self.image, broker_id, broker_epoch)

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        charge: ChargePartitions = without_quota,
    ) -> ControllerResult[CreatedTopic]:
        result = topic_changes.create_topics(
            self.image,
            topics,
            defaults=TopicDefaults(
                self._settings.num_partitions, self._settings.replication_factor
            ),
            check_configs=self._topic_config_check(),
            rng=self._rng,
            charge=charge,
        )
        return _without_records(result) if validate_only else result

    def delete_topics(
        self, refs: Sequence[TopicRef], *, charge: ChargePartitions = without_quota
    ) -> ControllerResult[DeletedTopic]:
        if not self._settings.delete_topics:
            error = ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            return ControllerResult(
                (), [DeletedTopic(ref.name, ref.topic_id, error) for ref in refs]
            )
        return topic_changes.delete_topics(self.image, refs, charge=charge)

    def create_partitions(
        self,
        growths: Sequence[MorePartitions],
        *,
        validate_only: bool = False,
        charge: ChargePartitions = without_quota,
    ) -> ControllerResult[GrownTopic]:
        result = topic_changes.create_partitions(self.image, growths, rng=self._rng, charge=charge)
        return _without_records(result) if validate_only else result

    def incremental_alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> ControllerResult[AlteredConfig]:
        result = self.configs.incremental_alter(alterations)
        return _without_records(result) if validate_only else result

    def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> ControllerResult[AlteredConfig]:
        result = self.configs.alter(alterations)
        return _without_records(result) if validate_only else result

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> ControllerResult[ApiError]:
        result = feature_changes.update_features(
            self.image, updates, node_id=self._settings.node_id
        )
        return _without_records(result) if validate_only else result

    def alter_client_quotas(
        self, alterations: "Sequence[QuotaAlteration]", *, validate_only: bool = False
    ) -> "ControllerResult[AlteredQuota]":
        from headrace.controller import quota_changes  # not needed while starting

        result = quota_changes.alter_client_quotas(self.image, alterations)
        return _without_records(result) if validate_only else result

    def alter_scram_credentials(
        self, deletions: "Sequence[ScramDeletion]", upsertions: "Sequence[ScramUpsertion]"
    ) -> "ControllerResult[AlteredUser]":
        from headrace.controller.scram_changes import alter_credentials  # rare, and not at a start

        return alter_credentials(self.image, deletions, upsertions)

    def create_acls(self, acls: Sequence[Acl]) -> ControllerResult[ApiError]:
        in_znodes = bool(self._settings.static.get("zookeeper.connect"))
        return acl_changes.create_acls(self.image, acls, in_znodes=in_znodes)

    def delete_acls(self, filters: Sequence[AclFilter]) -> ControllerResult[DeletedAcls]:
        return acl_changes.delete_acls(self.image, filters)

    @property
    def rules(self) -> "Rules":
        """The topic settings that affect leader election, as of the current image."""
        from headrace.controller.election_settings import rules_of  # not needed while starting

        cached = self._rules
        if cached is None or cached[0] is not self.image.configs:
            cached = self._rules = (self.image.configs, rules_of(self.configs.effective))
        return cached[1]

    @property
    def configs(self) -> ConfigControl:
        """Configurations as of the current image, to change and to describe."""
        return ConfigControl(self.image, self._settings.node_id, self._settings.static, self._rng)

    def _topic_config_check(self) -> ConfigCheck:
        effective = self.configs.effective  # one view for all topics of a request

        def check(configs: dict[str, str]) -> None:
            if configs:
                check_topic(configs, effective)

        return check

    def _random_cluster_id(self) -> str:
        return encode_uuid(self._rng.randbytes(16))


def _without_records(result: ControllerResult[ResultT]) -> ControllerResult[ResultT]:
    return ControllerResult((), result.results)
