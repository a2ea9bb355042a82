"""Topics are created, extended and deleted with Kafka's checks and error texts."""

import pytest

from headrace.cluster.metadata_records import BrokerFenced, ConfigChanged, TopicCreated
from headrace.cluster.resources import topic_resource
from headrace.controller.topic_changes import (
    MAX_PARTITIONS_PER_REQUEST,
    MorePartitions,
    NewTopic,
    TopicRef,
)
from headrace.protocol.errors import ErrorCode
from support.brokers.controllers import commit, controller


def test_a_topic_without_counts_gets_the_brokers_defaults() -> None:
    made = controller()
    result = commit(made, made.create_topics([NewTopic("a")]))
    assert (result.num_partitions, result.replication_factor) == (1, 1)
    topic = made.image.topics["a"]
    assert topic.topic_id == result.topic_id
    assert topic.partitions[0].leader == 1
    assert topic.partitions[0].isr == (1,)


def test_topic_ids_are_random_uuids_of_version_4() -> None:
    made = controller()
    topics = [NewTopic(f"t{number}") for number in range(200)]
    ids = {result.topic_id for result in made.create_topics(topics).results}
    assert len(ids) == 200
    assert all(id_[6] >> 4 == 4 and id_[8] >> 6 == 2 and id_[0] >> 2 != 62 for id_ in ids)


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (
            NewTopic("a b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
                "alphanumerics, '.', '_' and '-'"
            ),
        ),
        (
            NewTopic(""),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            NewTopic(".."),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: '..' is not allowed",
        ),
        (
            NewTopic("x" * 250),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            (
                f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max "
                "allowed length 249"
            ),
        ),
        (
            NewTopic("o.d_x"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'o.d_x' collides with existing topic: o_d.x",
        ),
        (
            NewTopic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            NewTopic("new", 0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            NewTopic("new", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic("new", 1, 2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            (
                "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
                "cannot be reached because only 1 broker(s) are registered."
            ),
        ),
        (
            NewTopic("new", MAX_PARTITIONS_PER_REQUEST + 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (
            NewTopic("new", 1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            NewTopic("new", -1, 1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            (
                "A manual partition assignment was specified, but replication factor was not "
                "set to -1."
            ),
        ),
        (
            NewTopic("new", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("new", assignments=[(0, [1]), (2, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("new", assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            NewTopic("new", assignments=[(0, [7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            NewTopic("new", assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            NewTopic("new", configs=[("foo", "1")]),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: foo",
        ),
        (
            NewTopic("new", configs=[("retention.ms", "x")]),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            NewTopic("new", configs=[("retention.ms", None)]),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
    ],
)
def test_a_topic_that_breaks_a_rule_is_refused(
    topic: NewTopic, code: ErrorCode, message: str
) -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("old")]))
    commit(made, made.create_topics([NewTopic("o_d.x")]))
    outcome = made.create_topics([topic])
    assert outcome.records == ()
    assert [result.error for result in outcome.results] == [(code, message)]


def test_one_invalid_topic_does_not_affect_the_others() -> None:
    outcome = controller().create_topics([NewTopic("good"), NewTopic("b d"), NewTopic("fine")])
    codes = [result.error.code for result in outcome.results]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    created = [record.name for record in outcome.records if isinstance(record, TopicCreated)]
    assert created == ["good", "fine"]


def test_a_duplicate_name_is_refused_and_answered_once() -> None:
    outcome = controller().create_topics([NewTopic("a"), NewTopic("b"), NewTopic("a")])
    errors = {result.name: result.error for result in outcome.results}
    assert errors["a"] == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert errors["b"].code == ErrorCode.NONE
    assert len(outcome.results) == 2


def test_two_topics_of_one_request_may_not_collide_either() -> None:
    results = controller().create_topics([NewTopic("a.b"), NewTopic("a_b")]).results
    assert results[1].error.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_validate_only_answers_and_changes_nothing() -> None:
    outcome = controller().create_topics([NewTopic("a", 3)], validate_only=True)
    assert outcome.records == ()
    assert outcome.results[0].num_partitions == 3


def test_configs_of_a_new_topic_are_stored_with_it() -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("a", configs=[("retention.ms", "5")])]))
    assert made.image.config(topic_resource("a")) == {"retention.ms": "5"}


def test_a_manual_assignment_is_kept_and_its_first_live_replica_leads() -> None:
    made = controller(3)
    made.image = made.image.apply([BrokerFenced(2)])
    result = commit(made, made.create_topics([NewTopic("a", assignments=[(1, [3]), (0, [2])])]))
    assert result.error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "fenced" in str(result.error.message)
    commit(made, made.create_topics([NewTopic("a", assignments=[(1, [3, 1]), (0, [2, 1])])]))
    first, second = made.image.topics["a"].partitions
    assert (first.replicas, first.isr, first.leader) == ((2, 1), (1,), 1)
    assert (second.replicas, second.leader) == ((3, 1), 3)


def test_no_topic_is_created_while_all_brokers_are_fenced() -> None:
    made = controller()
    made.image = made.image.apply([BrokerFenced(1)])
    (result,) = made.create_topics([NewTopic("a")]).results
    assert result.error.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_ten_thousand_partitions_fit_one_request() -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("a", MAX_PARTITIONS_PER_REQUEST)]))
    assert made.image.partition_count == MAX_PARTITIONS_PER_REQUEST


# -- deletion -----------------------------------------------------------------------------------


def test_topics_are_deleted_by_name_and_by_id() -> None:
    made = controller()
    ids = {name: commit(made, made.create_topics([NewTopic(name)])).topic_id for name in ("a", "b")}
    outcome = made.delete_topics([TopicRef("a"), TopicRef(topic_id=ids["b"])])
    assert [(item.name, item.topic_id, item.error.code) for item in outcome.results] == [
        ("a", ids["a"], 0),
        ("b", ids["b"], 0),
    ]
    assert made.image.apply(outcome.records).topics == {}


def test_a_topic_named_twice_is_not_deleted() -> None:
    made = controller()
    id_ = commit(made, made.create_topics([NewTopic("a")])).topic_id
    for refs, message in (
        ([TopicRef("a"), TopicRef("a")], "Duplicate topic name."),
        ([TopicRef(topic_id=id_), TopicRef(topic_id=id_)], "Duplicate topic id."),
        (
            [TopicRef("a"), TopicRef(topic_id=id_)],
            "The provided topic name maps to an ID that was already supplied.",
        ),
        ([TopicRef("a", id_)], "You may not specify both topic name and topic id."),
        ([TopicRef()], "Neither topic name nor id were specified."),
    ):
        outcome = made.delete_topics(refs)
        assert outcome.records == ()
        for result in outcome.results:
            assert result.error == (ErrorCode.INVALID_REQUEST, message)


def test_unknown_topics_are_reported_by_name_or_id_as_requested() -> None:
    results = controller().delete_topics([TopicRef("no"), TopicRef(topic_id=b"x" * 16)]).results
    assert [result.error.code for result in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert all(result.error.message for result in results)


def test_deletion_can_be_disabled() -> None:
    made = controller(delete_topics=False)
    commit(made, made.create_topics([NewTopic("a")]))
    outcome = made.delete_topics([TopicRef("a")])
    assert outcome.records == ()
    assert outcome.results[0].error.code == ErrorCode.TOPIC_DELETION_DISABLED


# -- growth -------------------------------------------------------------------------------------


def test_partitions_are_added_up_to_the_new_total() -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("a", 2)]))
    assert commit(made, made.create_partitions([MorePartitions("a", 5)])).error.code == 0
    assert len(made.image.topics["a"].partitions) == 5


@pytest.mark.parametrize(
    ("growth", "code", "message"),
    [
        (
            MorePartitions("a", 2),
            ErrorCode.INVALID_PARTITIONS,
            "Topic already has 2 partition(s).",
        ),
        (
            MorePartitions("a", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            MorePartitions("a", 4, [[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions("a", 3, [[9]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            MorePartitions("a", 2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
    ],
)
def test_an_invalid_partition_count_is_refused(
    growth: MorePartitions, code: ErrorCode, message: str
) -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("a", 2)]))
    outcome = made.create_partitions([growth])
    assert outcome.records == ()
    assert outcome.results[0].error == (code, message)


def test_added_partitions_keep_the_replication_factor() -> None:
    made = controller(3)
    commit(made, made.create_topics([NewTopic("a", 1, 2)]))
    (bad,) = made.create_partitions([MorePartitions("a", 2, [[1, 2, 3]])]).results
    assert bad.error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert commit(made, made.create_partitions([MorePartitions("a", 2, [[3, 1]])])).error.code == 0
    assert made.image.topics["a"].partitions[1].replicas == (3, 1)


def test_unknown_and_duplicate_topics_get_no_partitions() -> None:
    made = controller()
    commit(made, made.create_topics([NewTopic("a")]))
    outcome = made.create_partitions(
        [MorePartitions("no", 2), MorePartitions("a", 2), MorePartitions("a", 3)]
    )
    assert outcome.records == ()
    assert [(item.name, item.error.code) for item in outcome.results] == [
        ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", ErrorCode.INVALID_REQUEST),
    ]


def test_the_partition_limit_of_a_request_covers_all_its_topics() -> None:
    made = controller()
    for name in ("a", "b"):
        commit(made, made.create_topics([NewTopic(name)]))
    half = MAX_PARTITIONS_PER_REQUEST // 2 + 2
    outcome = made.create_partitions([MorePartitions("a", half), MorePartitions("b", half)])
    codes = [item.error.code for item in outcome.results]
    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_config_records_follow_the_topic_they_belong_to() -> None:
    outcome = controller().create_topics([NewTopic("a", configs=[("flush.messages", "1")])])
    assert [type(record) for record in outcome.records] == [TopicCreated, ConfigChanged]
