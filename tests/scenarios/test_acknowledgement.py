"""acks, retries, retry.backoff.ms and max.in.flight: the guarantees of a producer."""

import pytest
from confluent_kafka import KafkaError

from headrace.protocol.errors import ErrorCode
from support.clients.librdkafka import MakeSender, ReadAll
from support.waiting import wait_for
from support.wire.faulty_proxy import Link

VALUES = [b"%d" % number for number in range(8)]
ONE_BY_ONE = {"linger.ms": 0, "batch.num.messages": 1}
SOON = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20}
REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("acks", ["1", "all"])
def test_acknowledged_records_have_their_offsets(
    topic: str, sender: MakeSender, read_all: ReadAll, acks: str
) -> None:
    # Invariant: an acknowledged record is in the log, at the offset that was reported.
    one = sender(acks=acks)
    one.send(topic, *VALUES)
    one.finish()
    assert [message.offset() for message in one.delivered] == list(range(len(VALUES)))
    assert read_all(topic) == VALUES


def test_acks_0_reports_success_without_an_offset(
    topic: str, sender: MakeSender, read_all: ReadAll
) -> None:
    # Invariant: there is no response; on a healthy connection all records arrive in order.
    one = sender(acks="0")
    one.send(topic, *VALUES)
    one.finish()
    assert {message.offset() for message in one.delivered} == {None}
    wait_for(lambda: read_all(topic) == VALUES, "everything has arrived")


@pytest.mark.parametrize(("idempotent", "copies"), [(False, 2), (True, 1)])
def test_a_lost_response_is_retried(
    topic: str, link: Link, sender: MakeSender, read_all: ReadAll, *, idempotent: bool, copies: int
) -> None:
    # Invariant: a retry delivers at least once; with idempotence exactly once.
    one = sender(link.bootstrap_servers, **SOON, **{"enable.idempotence": idempotent})
    link.lose_answers(1)
    one.send(topic, b"once")
    one.finish()
    assert one.failed == []
    assert read_all(topic) == [b"once"] * copies


def test_retries_0_reports_the_error_to_the_application(
    topic: str, link: Link, sender: MakeSender, read_all: ReadAll
) -> None:
    # Invariant: without retries a failure is reported, once, and nothing is sent again.
    one = sender(link.bootstrap_servers, retries=0)
    link.refuse(REFUSED)
    one.send(topic, b"lost")
    one.finish()
    assert [error.code() for error in one.failed] == [KafkaError.NOT_ENOUGH_REPLICAS]
    assert read_all(topic) == []


def test_transient_errors_are_retried_until_they_end(
    topic: str, link: Link, sender: MakeSender, read_all: ReadAll
) -> None:
    # Invariant: retries (unlimited by default) hide transient errors.
    one = sender(link.bootstrap_servers, **SOON)
    link.refuse(REFUSED, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
    one.send(topic, b"patient")
    one.finish()
    assert one.failed == []
    assert read_all(topic) == [b"patient"]
    assert len(link.produced_at) == 4


def test_retries_wait_for_their_backoff(topic: str, link: Link, sender: MakeSender) -> None:
    # Invariant: retry.backoff.ms (less 20 % of jitter) lies between a failure and the next try.
    one = sender(link.bootstrap_servers, **{"retry.backoff.ms": 300})
    link.refuse(REFUSED)
    one.send(topic, b"later")
    one.finish()
    assert [pause >= 0.2 for pause in link.pauses_s] == [True]


def test_one_request_in_flight_keeps_order_without_idempotence(
    topic: str, link: Link, sender: MakeSender, read_all: ReadAll
) -> None:
    # Invariant: nothing overtakes a request that has to be sent again.
    alone = {"max.in.flight.requests.per.connection": 1}
    one = sender(link.bootstrap_servers, **SOON, **ONE_BY_ONE, **alone)
    link.refuse(REFUSED, REFUSED)
    one.send(topic, *VALUES)
    one.finish()
    assert read_all(topic) == VALUES


def test_many_requests_in_flight_keep_order_with_idempotence(
    topic: str, link: Link, sender: MakeSender, read_all: ReadAll
) -> None:
    # Invariant: the broker rejects out-of-order batches and stores no batch twice.
    together = {"max.in.flight.requests.per.connection": 5, "enable.idempotence": True}
    one = sender(link.bootstrap_servers, **SOON, **ONE_BY_ONE, **together)
    one.send(topic, VALUES[0])  # from here on the broker knows the producer's next number
    one.finish()
    link.refuse(REFUSED)
    one.send(topic, *VALUES[1:])
    one.finish()
    assert one.failed == []
    assert read_all(topic) == VALUES


def test_many_requests_in_flight_without_idempotence_lose_nothing_but_maybe_order(
    topic: str, link: Link, sender: MakeSender, read_all: ReadAll
) -> None:
    # Invariant: every record arrives; the order is not promised.
    together = {"max.in.flight.requests.per.connection": 5, "enable.idempotence": False}
    one = sender(link.bootstrap_servers, **SOON, **ONE_BY_ONE, **together)
    link.refuse(REFUSED)
    one.send(topic, *VALUES)
    one.finish()
    assert one.failed == []
    assert sorted(read_all(topic), key=lambda value: value or b"") == VALUES
