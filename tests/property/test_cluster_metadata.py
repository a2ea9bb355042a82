"""After any request the controller's store and images agree and are valid."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.cluster.configs.catalog import BY_RESOURCE
from headrace.cluster.configs.config_def import InvalidConfig
from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.image import MetadataImage
from headrace.cluster.stores.sqlite import IN_MEMORY, SqliteStore
from headrace.cluster.topic_names import collision_key, name_problem
from headrace.cluster.topology import BrokerRegistration, Endpoint
from headrace.controller.config_changes import ConfigAlteration, ConfigOp
from headrace.controller.feature_changes import FeatureUpdate
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.replica_placement import place
from headrace.controller.result import ControllerResult
from headrace.controller.topic_changes import MorePartitions, NewTopic, TopicRef
from headrace.protocol.errors import ErrorCode

NAMES = st.one_of(
    st.sampled_from(["a", "b", "a.b", "a_b", "__consumer_offsets", "bad name", "", ".."]),
    st.text(max_size=6),
)
COUNTS = st.one_of(st.integers(-2, 6), st.integers(-(2**31), 2**31 - 1))
IDS = st.lists(st.integers(0, 4), max_size=4)
TEXTS = st.one_of(
    st.sampled_from(["1", "-1", "0", "true", "delete", "compact,delete", "1048576", "", ","]),
    st.text(max_size=8),
)
TOPIC_CONFIGS = st.sampled_from(
    ["retention.ms", "cleanup.policy", "min.compaction.lag.ms", "max.compaction.lag.ms", "foo"]
)
CONFIGS = st.one_of(
    TOPIC_CONFIGS, st.sampled_from(["log.retention.ms", "num.partitions", "interval.ms"])
)


class ClusterMachine(RuleBasedStateMachine):
    """A controller with its store; each step's records go both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SqliteStore(IN_MEMORY)
        self.controller = MetadataController(
            self.store.load(), ControllerSettings(node_id=1, num_partitions=2), Random(1)
        )
        self.blocks: list[int] = []
        self._commit(ControllerResult(self.controller.bootstrap(), ()))
        for id_ in (1, 2, 3):
            self._commit(self.controller.register_broker(id_, [Endpoint("P", "h", id_)]))

    def teardown(self) -> None:
        self.store.close()

    def _commit(self, outcome: ControllerResult[object]) -> None:
        controller = self.controller
        if outcome.records:
            version = controller.image.version
            self.store.commit(outcome.records, expected_version=version)
            controller.image = controller.image.apply(outcome.records)

    @rule(
        names=st.lists(NAMES, max_size=3),
        partitions=COUNTS,
        factor=st.integers(-2, 5),
        configs=st.lists(st.tuples(TOPIC_CONFIGS, st.none() | TEXTS), max_size=2),
        validate_only=st.booleans(),
    )
    def create(
        self,
        names: list[str],
        partitions: int,
        factor: int,
        configs: list[tuple[str, str | None]],
        validate_only: bool,
    ) -> None:
        topics = [NewTopic(name, partitions, factor, configs=configs) for name in names]
        outcome = self.controller.create_topics(topics, validate_only=validate_only)
        assert {result.name for result in outcome.results} == set(names)
        assert not (validate_only and outcome.records)
        self._commit(outcome)

    @rule(name=NAMES, assignments=st.lists(st.tuples(st.integers(-1, 3), IDS), max_size=3))
    def create_assigned(self, name: str, assignments: list[tuple[int, list[int]]]) -> None:
        self._commit(self.controller.create_topics([NewTopic(name, assignments=assignments)]))

    @rule(name=NAMES, count=COUNTS, assignments=st.none() | st.lists(IDS, max_size=2))
    def grow(self, name: str, count: int, assignments: list[list[int]] | None) -> None:
        growth = MorePartitions(name, count, assignments)
        self._commit(self.controller.create_partitions([growth]))

    @rule(names=st.lists(NAMES, max_size=2), by_id=st.booleans())
    def delete(self, names: list[str], by_id: bool) -> None:
        topics = self.controller.image.topics
        refs = [
            TopicRef(topic_id=topics[name].topic_id) if by_id and name in topics else TopicRef(name)
            for name in names
        ]
        self._commit(self.controller.delete_topics(refs))

    @rule(
        type_=st.sampled_from([2, 4, 8, 16, 32, 7]),
        name=st.sampled_from(["a", "b", "1", "2", ""]),
        ops=st.lists(st.tuples(CONFIGS, st.none() | TEXTS, st.integers(-1, 4)), max_size=3),
        incremental=st.booleans(),
    )
    def alter(
        self, type_: int, name: str, ops: list[tuple[str, str | None, int]], incremental: bool
    ) -> None:
        alteration = ConfigAlteration(type_, name, [ConfigOp(*op) for op in ops])
        controller = self.controller
        call = controller.incremental_alter_configs if incremental else controller.alter_configs
        self._commit(call([alteration]))

    @rule(
        feature=st.sampled_from(["share.version", "metadata.version", "foo"]),
        level=st.integers(-1, 31),
        kind=st.integers(-1, 4),
    )
    def update(self, feature: str, level: int, kind: int) -> None:
        self._commit(self.controller.update_features([FeatureUpdate(feature, level, kind)]))

    @rule(id_=st.integers(1, 3))
    def restart(self, id_: int) -> None:
        before = self.controller.image.brokers[id_].epoch
        self._commit(self.controller.fence_broker(id_))
        self._commit(self.controller.register_broker(id_, [Endpoint("P", "h", id_)]))
        assert self.controller.image.brokers[id_].epoch > before

    @rule(id_=st.integers(1, 3))
    def fence(self, id_: int) -> None:
        self._commit(self.controller.fence_broker(id_))

    @rule(id_=st.integers(1, 3))
    def take_producer_ids(self, id_: int) -> None:
        epoch = self.controller.image.brokers[id_].epoch
        outcome = self.controller.allocate_producer_ids(id_, epoch)
        self._commit(outcome)
        self.blocks.append(outcome.results[0].first)
        assert len(set(self.blocks)) == len(self.blocks)

    @invariant()
    def the_store_holds_the_image(self) -> None:
        assert self.store.load() == self.controller.image

    @invariant()
    def the_image_is_sound(self) -> None:
        image = self.controller.image
        assert {topic.name: topic for topic in image.topics_by_id.values()} == image.topics
        assert image.partition_count == sum(len(t.partitions) for t in image.topics.values())
        keys = [key for key in map(collision_key, image.topics) if key is not None]
        assert sorted(keys) == sorted(image.collisions)
        for topic in image.topics.values():
            assert name_problem(topic.name) is None
            for partition in topic.partitions:
                assert partition.leader in partition.isr
                assert set(partition.isr) <= set(partition.replicas) <= set(image.brokers)
                assert len(partition.replicas) == topic.replication_factor

    @invariant()
    def every_topic_has_valid_effective_values(self) -> None:
        effective = self.controller.configs.effective
        for name in self.controller.image.topics:
            values = effective.topic_values(name)
            low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
            assert isinstance(low, int)
            assert isinstance(high, int)
            assert low <= high
            described = self.controller.configs.describe(2, name)
            assert described.error.code == ErrorCode.NONE


TestCluster = pytest.mark.filterwarnings("error")(ClusterMachine.TestCase)
TestCluster.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@given(text=st.text(max_size=40))
def test_any_text_parses_or_raises_the_documented_error(text: str) -> None:
    for table in BY_RESOURCE.values():
        for definition in table.values():
            try:
                canonical = definition.canonical(text)
            except InvalidConfig as error:
                assert str(error)
            else:
                assert definition.parse(canonical) == definition.parse(text)
                assert definition.canonical(canonical) == canonical


@given(
    racks=st.lists(st.none() | st.sampled_from("xyz"), min_size=1, max_size=9),
    fenced=st.sets(st.integers(0, 8)),
    count=st.integers(1, 40),
    data=st.data(),
)
def test_placement_is_even_and_uses_each_broker_once(
    racks: list[str | None], fenced: set[int], count: int, data: st.DataObject
) -> None:
    brokers = [
        BrokerRegistration(id_, 1, (), rack, fenced=id_ in fenced) for id_, rack in enumerate(racks)
    ]
    live = [broker.broker_id for broker in brokers if not broker.fenced]
    if not live:
        return
    factor = data.draw(st.integers(1, len(brokers)))
    partitions = place(brokers, count=count, replication_factor=factor, rng=data.draw(st.randoms()))
    assert len(partitions) == count
    leaders = [partition.leader for partition in partitions]
    loads = [leaders.count(id_) for id_ in live]
    assert max(loads) - min(loads) <= 1
    live_racks = {racks[id_] for id_ in live}
    for partition in partitions:
        assert len(set(partition.replicas)) == len(partition.replicas) == factor
        assert partition.isr == tuple(id_ for id_ in partition.replicas if id_ in live)
        spread = {racks[id_] for id_ in partition.isr}
        assert len(spread) == min(len(live_racks), len(partition.isr))


def test_an_image_applies_its_batches_in_any_grouping() -> None:
    controller = MetadataController(MetadataImage(), ControllerSettings(node_id=1), Random(2))
    records = controller.bootstrap("c")
    one_by_one = MetadataImage()
    for record in records:
        one_by_one = one_by_one.apply([record])
    assert one_by_one.at_version(1) == MetadataImage().apply(records)
