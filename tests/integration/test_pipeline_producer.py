"""The pipeline's transactional producer against a real broker, in both transaction protocols."""

from collections.abc import Iterator

import pytest

from headrace.client.admin.offsets import CommittedOffset, committed_offsets
from headrace.client.results import TopicPartition
from headrace.pipeline.producer import (
    ProducerFailed,
    ProducerFenced,
    ProducerSettings,
    TransactionalProducer,
)
from headrace.protocol.errors import ErrorCode
from headrace.records.codec import Codec
from headrace.records.record import Record
from headrace.testing import Broker
from headrace.testing.helper import Headrace
from support.brokers.older_features import without_second_protocol


@pytest.fixture(scope="module", params=["implicit", "explicit"])
def helper(request: pytest.FixtureRequest) -> Iterator[Headrace]:
    with Broker() as broker:
        if request.param == "explicit":
            without_second_protocol(broker.headrace)
        yield broker.headrace


@pytest.fixture
def settings(helper: Headrace) -> ProducerSettings:
    return ProducerSettings(helper.bootstrap_servers, batch_bytes=2_000, buffer_bytes=8_000)


def records(*values: str) -> list[Record]:
    return [Record(0, 1_000 + at, b"k", value.encode()) for at, value in enumerate(values)]


def values_of(helper: Headrace, topic: str, partition: int = 0) -> list[str]:
    got = helper.consume(topic, partition=partition, read_committed=True)
    return [(each.value or b"").decode() for each in got]


def committed(helper: Headrace, group: str) -> dict[TopicPartition, CommittedOffset]:
    return helper._call(lambda client: committed_offsets(client, group, timeout_s=30))


def test_a_transaction_and_its_offsets_are_visible_after_the_commit(
    helper: Headrace, settings: ProducerSettings
) -> None:
    topic, source = helper.create_topic(partitions=2), helper.create_topic()
    at = TopicPartition(source, 0)
    with TransactionalProducer(settings, f"id-{topic}") as producer:
        producer.init()
        for number in range(3):
            producer.produce(topic, 0, records(f"a{number}"))
            producer.produce(topic, 1, records(f"b{number}"))
            assert values_of(helper, topic)[number:] == []
            producer.send_offsets(f"g-{topic}", {at: number + 1}, f'{{"batch": {number}}}')
            producer.commit()
            helper.wait_for(
                lambda number=number: len(values_of(helper, topic)) == number + 1, "it is seen"
            )
    helper.wait_for(lambda: values_of(helper, topic, 1) == ["b0", "b1", "b2"], "the other one")
    helper.wait_for(lambda: committed(helper, f"g-{topic}")[at].offset == 3, "the offsets")
    assert committed(helper, f"g-{topic}")[at].metadata == '{"batch": 2}'


def test_an_aborted_transaction_leaves_nothing_and_the_next_one_works(
    helper: Headrace, settings: ProducerSettings
) -> None:
    topic, source = helper.create_topic(), helper.create_topic()
    with TransactionalProducer(settings, f"id-{topic}") as producer:
        producer.init()
        producer.produce(topic, 0, records("no"))
        producer.send_offsets(f"g-{topic}", {TopicPartition(source, 0): 9})
        producer.abort()
        producer.produce(topic, 0, records("yes"))
        producer.commit()
    helper.wait_for(lambda: values_of(helper, topic) == ["yes"], "only what was committed")
    assert committed(helper, f"g-{topic}") == {}


@pytest.mark.parametrize("codec", list(Codec))
def test_many_records_arrive_in_order_with_a_small_buffer(
    helper: Headrace, settings: ProducerSettings, codec: Codec
) -> None:
    topic = helper.create_topic()
    wanted = [f"value {number}" for number in range(2_000)]
    with TransactionalProducer(settings._replace(codec=codec), f"id-{topic}") as producer:
        producer.init()
        producer.produce(topic, 0, (each for each in records(*wanted)))
        producer.commit()
    helper.wait_for(lambda: values_of(helper, topic) == wanted, "all of it")


def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(
    helper: Headrace, settings: ProducerSettings
) -> None:
    topic = helper.create_topic()
    with (
        TransactionalProducer(settings, f"id-{topic}") as old,
        TransactionalProducer(settings, f"id-{topic}") as new,
    ):
        old.init()
        old.produce(topic, 0, records("old"))
        new.init()
        with pytest.raises(ProducerFenced, match="runs once only"):
            old.commit()
        new.produce(topic, 0, records("new"))
        new.commit()
    helper.wait_for(lambda: values_of(helper, topic) == ["new"], "the new one's")


def test_an_oversized_record_error_gives_a_remedy_and_the_producer_continues(
    helper: Headrace, settings: ProducerSettings
) -> None:
    topic = helper.create_topic(configs={"max.message.bytes": 1_000})
    with TransactionalProducer(settings._replace(codec=Codec.NONE), f"id-{topic}") as producer:
        producer.init()
        producer.produce(topic, 0, records("x" * 5_000))
        with pytest.raises(ProducerFailed, match=r"raise max\.message\.bytes"):
            producer.commit()
        producer.abort()
        producer.produce(topic, 0, records("small"))
        producer.commit()
    helper.wait_for(lambda: values_of(helper, topic) == ["small"], "the next transaction")


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_retriable_errors_are_retried(
    helper: Headrace, settings: ProducerSettings, code: ErrorCode
) -> None:
    topic = helper.create_topic()
    with TransactionalProducer(settings, f"id-{topic}") as producer:
        producer.init()
        helper.trouble.fail("Produce", code, times=2)
        producer.produce(topic, 0, records("a", "b"))
        producer.commit()
    helper.wait_for(lambda: values_of(helper, topic) == ["a", "b"], "both")


def test_lost_responses_do_not_duplicate_records(
    helper: Headrace, settings: ProducerSettings
) -> None:
    topic, source = helper.create_topic(), helper.create_topic()
    at = TopicPartition(source, 0)
    with TransactionalProducer(settings, f"id-{topic}") as producer:
        producer.init()
        for number in range(2):
            for api in ("Produce", "TxnOffsetCommit", "EndTxn"):
                helper.trouble.drop(api, carried_out=True)
            producer.produce(topic, 0, records(f"{number}"))
            producer.send_offsets(f"g-{topic}", {at: number})
            producer.commit()
    helper.wait_for(lambda: values_of(helper, topic) == ["0", "1"], "each once")
    helper.wait_for(lambda: committed(helper, f"g-{topic}")[at].offset == 1, "the last offset")


def test_a_commit_without_a_transaction_does_nothing(
    helper: Headrace, settings: ProducerSettings
) -> None:
    with TransactionalProducer(settings, "idle") as producer:
        producer.init()
        producer.commit()
        producer.abort()


def test_producing_before_init_is_an_error(settings: ProducerSettings) -> None:
    with (
        TransactionalProducer(settings, "eager") as producer,
        pytest.raises(ProducerFailed, match="init comes first"),
    ):
        producer.produce("t", 0, records("a"))


def test_the_transaction_timeout_is_lowered_to_the_brokers_maximum() -> None:
    with Broker(settings={"transaction.max.timeout.ms": "120000"}) as broker:
        settings = ProducerSettings(broker.headrace.bootstrap_servers)
        topic = broker.headrace.create_topic()
        with TransactionalProducer(settings, "long") as producer:
            producer.init()
            producer.produce(topic, 0, records("a"))
            producer.commit()
        broker.headrace.consume(topic, 1, read_committed=True)
