"""The meters of requests."""

import asyncio

from headrace.broker.network.request_meter import RequestMeters, is_from_follower
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.fetch import FetchReplicaState, FetchRequest
from headrace.protocol.messages.heartbeat import HeartbeatResponse


def test_an_api_has_one_meter_and_fetch_has_two() -> None:
    meters = RequestMeters(lambda: 0.0)
    assert meters.of(ApiKey.PRODUCE) is meters.of(ApiKey.PRODUCE)
    consumers, followers = meters.of(ApiKey.FETCH), meters.of_followers
    assert dict(meters.named())["Fetch"] == (consumers, followers)
    assert {name for name, _ in meters.named()} == {
        "Produce",
        "FetchConsumer",
        "FetchFollower",
        "Fetch",
    }


def test_a_fetch_of_a_follower_is_recognised_in_every_version() -> None:
    assert is_from_follower(FetchRequest(replica_id=3))
    assert is_from_follower(FetchRequest(replica_state=FetchReplicaState(replica_id=3)))
    assert not is_from_follower(FetchRequest())
    assert not is_from_follower(FetchRequest(replica_id=-2))  # a debugging consumer


def test_times_of_a_request_add_up() -> None:
    meter = RequestMeters(lambda: 0.0).of(ApiKey.PRODUCE)
    for seconds in (0.25, 0.5):
        meter.record_at_once(seconds)
    meter.fold()
    meter.answered_later(0.25, 0.5, 4.0)
    assert (meter.total.sum, meter.local.sum, meter.remote.sum) == (4.75, 1.0, 3.25)
    assert (meter.total.count, meter.remote.count) == (2, 1)


def test_folding_empties_the_buffers_of_a_busy_api() -> None:
    meters = RequestMeters(lambda: 0.0)
    meter = meters.of(ApiKey.PRODUCE)
    for _ in range(1000):
        meter.record_at_once(0.0)
        meter.record_at_once(0.001)
    assert meter.total.count == 0
    meters.fold()
    meters.fold()
    assert (meter.total.count, meter.queue.count, meter.local.count) == (1000, 1000, 1000)
    assert not any(each.buffer for each in (meter.queue, meter.local, meter.total))


def test_a_waiting_request_counts_until_its_answer_or_its_client_is_gone() -> None:
    async def main() -> None:
        meter = RequestMeters(lambda: 0.0).of(ApiKey.FETCH)
        answered, left = (asyncio.get_running_loop().create_future() for _ in range(2))
        meter.starts_waiting(answered)
        meter.starts_waiting(left)
        assert meter.waiting == 2
        answered.set_result(None)
        left.cancel()
        await asyncio.sleep(0)
        assert meter.waiting == 0

    asyncio.run(main())


def test_answers_are_counted_by_their_error_codes() -> None:
    meter = RequestMeters(lambda: 0.0).of(ApiKey.HEARTBEAT)
    for answer in (HeartbeatResponse(error_code=27), HeartbeatResponse(), b"encoded", None):
        meter.count_answer(answer)
    assert meter.error_counts() == {27: 1, 0: 2}


def test_the_work_of_a_late_answer_counts_for_its_api() -> None:
    times = iter((1.0, 1.5))
    meters = RequestMeters(lambda: next(times))
    assert meters.measured(ApiKey.FETCH, lambda: "answer")() == "answer"
    assert meters.of(ApiKey.FETCH).cpu_s == 0.5
