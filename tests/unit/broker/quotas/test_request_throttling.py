"""The time of a request is the time that the event loop works on it, and not its waits."""

import asyncio
from collections.abc import Mapping

import pytest

from headrace.broker.quotas.client_quotas import ClientQuotas
from headrace.broker.quotas.exemption import BrokerExemption
from headrace.broker.quotas.request_throttling import RequestCharge
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.heartbeat import HeartbeatResponse
from headrace.protocol.messages.produce import ProduceResponse
from headrace.protocol.messages.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.principal import user
from headrace.security.quotas.client_quota import USER, QuotaEntity
from headrace.security.quotas.quota_windows import QuotaWindows
from headrace.security.session import Session

ALICE = QuotaEntity(((USER, "alice"),))


class Time:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Connection:
    def __init__(self) -> None:
        self.muted_s = 0.0

    def mute(self, duration_s: float) -> None:
        self.muted_s = duration_s


class Request:
    version = 4
    client_id = "app"

    def __init__(self, size: int = 100) -> None:
        self.frame = b"x" * size
        self.session = Session(user("alice"), "10.0.0.1", "PLAINTEXT")
        self.connection = Connection()


class NoBroker(BrokerExemption):
    def __init__(self) -> None: ...

    def exempts(self, session: Session, client_id: str) -> bool:
        return False


def quotas_of(time: Time, limits: Mapping[str, float]) -> ClientQuotas:
    quotas = ClientQuotas(QuotaWindows(), QuotaWindows(), time, NoBroker())
    quotas.update({ALICE: limits})
    return quotas


def charge(quotas: ClientQuotas, request: Request, key: ApiKey = ApiKey.HEARTBEAT) -> RequestCharge:
    found = quotas.charge(request, APIS[key])
    assert found is not None
    return found


def test_a_client_over_its_percentage_is_throttled_for_at_most_a_window() -> None:
    time, request = Time(), Request()
    quotas = quotas_of(time, {"request_percentage": 10.0})
    first = charge(quotas, request)
    time.now_s += 1.0  # 10 percent of ten seconds
    first.pause()
    assert first.settle(HeartbeatResponse()) == HeartbeatResponse()
    assert request.connection.muted_s == 0
    second = charge(quotas, request)
    time.now_s += 0.5
    second.pause()
    answer = second.settle(HeartbeatResponse())
    assert isinstance(answer, HeartbeatResponse)
    assert answer.throttle_time_ms == 1000
    assert request.connection.muted_s == 1.0


def test_a_coroutine_is_measured_without_its_waits() -> None:
    time, request = Time(), Request()
    quotas = quotas_of(time, {"request_percentage": 10.0})

    async def scenario() -> None:
        waited = asyncio.get_running_loop().create_future()

        async def handler() -> HeartbeatResponse:
            time.now_s += 0.25
            await waited
            time.now_s += 0.25
            return HeartbeatResponse()

        measured = charge(quotas, request)
        measured.pause()
        task = asyncio.get_running_loop().create_task(measured.measured(handler()))
        await asyncio.sleep(0)
        time.now_s += 60  # other clients are served
        waited.set_result(None)
        answer = measured.settle(await task)
        assert isinstance(answer, HeartbeatResponse)
        assert answer.throttle_time_ms == 0
        manager = quotas._managers.request
        assert manager.record("alice", "app", 50 + 0.000_001) == 0  # 50 were recorded
        assert manager.record("alice", "app", 1) > 0

    asyncio.run(scenario())


def test_an_exception_and_a_cancellation_reach_the_handler() -> None:
    quotas = quotas_of(Time(), {"request_percentage": 10.0})
    seen: list[str] = []

    async def scenario() -> None:
        async def handler() -> HeartbeatResponse:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            raise AssertionError

        measured = charge(quotas, Request()).measured(handler())
        task = asyncio.get_running_loop().create_task(measured)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert seen == ["cancelled"]


def test_the_longest_throttle_time_counts_also_that_of_the_controller() -> None:
    time, request = Time(), Request()
    quotas = quotas_of(time, {"request_percentage": 10.0})
    measured = charge(quotas, request)
    measured.pause()
    answer = measured.settle(HeartbeatResponse(throttle_time_ms=700))
    assert isinstance(answer, HeartbeatResponse)
    assert answer.throttle_time_ms == 700
    assert request.connection.muted_s == 0.7


def test_a_response_that_a_handler_keeps_is_not_changed() -> None:
    kept = HeartbeatResponse()
    time, request = Time(), Request()
    measured = charge(quotas_of(time, {"request_percentage": 0.001}), request)
    time.now_s += 1
    measured.pause()
    answer = measured.settle(kept)
    assert isinstance(answer, HeartbeatResponse)
    assert answer.throttle_time_ms == 1000
    assert kept.throttle_time_ms == 0


def test_an_encoded_response_gets_its_throttle_time() -> None:
    time, request = Time(), Request(size=20_000)
    request.version = 9
    measured = charge(quotas_of(time, {"producer_byte_rate": 1000.0}), request, ApiKey.PRODUCE)
    measured.pause()
    answer = measured.settle(ProduceResponse().encode(9))
    assert isinstance(answer, Struct)
    assert answer == ProduceResponse(throttle_time_ms=10_000)


def test_the_records_of_a_share_fetch_count_for_the_consumer_and_are_sent() -> None:
    time, request = Time(), Request()
    partition = ShareFetchPartitionData(records=b"v" * 15_000)
    response = ShareFetchResponse(responses=[ShareFetchableTopicResponse(partitions=[partition])])
    quotas = quotas_of(time, {"consumer_byte_rate": 1000.0})
    measured = charge(quotas, request, ApiKey.SHARE_FETCH)
    measured.pause()
    answer = measured.settle(response)
    assert isinstance(answer, ShareFetchResponse)
    assert answer.throttle_time_ms == 5000
    assert answer.responses == response.responses
