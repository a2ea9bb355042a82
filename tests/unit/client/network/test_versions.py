"""Version negotiation: newest first, with a fallback for every broker."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.errors import RequestRefused, UnsupportedByBroker
from headrace.client.network.connection import Address, connect
from headrace.client.network.versions import VersionRanges, negotiate
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.protocol.struct import Struct

Make = Callable[..., Any]
NEWEST = APIS[ApiKey.API_VERSIONS].max_version
FETCH = APIS[ApiKey.FETCH]


def _negotiate(broker: Any) -> VersionRanges:
    async def scenario() -> VersionRanges:
        async with broker:
            address = Address("127.0.0.1", broker.port)
            connection = await connect(address, client_id="test", timeout_s=5)
            try:
                return await negotiate(connection, software_version="1", timeout_s=5)
            finally:
                await connection.close()

    return asyncio.run(scenario())


def _refusing(supported: int, *, hint: bool) -> Callable[[Struct, int], Struct | bytes]:
    """A broker that supports ApiVersions up to `supported`, and since Kafka 2.4 says so."""

    def answer(request: Struct, version: int) -> Struct | bytes:
        own = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=supported)]
        if version > supported:
            refusal = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own if hint else []
            )
            return refusal.encode(0)
        return ApiVersionsResponse(api_keys=own)

    return answer


def test_the_newest_version_is_tried_first(make_broker: Make) -> None:
    broker = make_broker()
    ranges = _negotiate(broker)
    assert broker.seen == [(ApiKey.API_VERSIONS, NEWEST)]
    assert ranges.pick(FETCH) == FETCH.max_version


@pytest.mark.parametrize(("hint", "then"), [(True, 2), (False, 0)])
def test_a_broker_that_refuses_gets_a_version_it_supports(
    make_broker: Make, hint: bool, then: int
) -> None:
    broker = make_broker()
    broker.handlers[ApiKey.API_VERSIONS] = _refusing(2, hint=hint)
    _negotiate(broker)
    assert broker.seen == [(ApiKey.API_VERSIONS, NEWEST), (ApiKey.API_VERSIONS, then)]


def test_another_error_is_raised_with_its_code(make_broker: Make) -> None:
    broker = make_broker()
    refused = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    broker.handlers[ApiKey.API_VERSIONS] = lambda request, version: refused
    with pytest.raises(RequestRefused) as caught:
        _negotiate(broker)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_the_picked_version_is_the_newest_of_both_and_not_above_the_callers_limit() -> None:
    ranges = VersionRanges({ApiKey.FETCH: (0, 11)})
    assert ranges.pick(FETCH) == 11
    assert ranges.pick(FETCH, at_most=5) == 5
    assert VersionRanges({ApiKey.FETCH: (0, 99)}).pick(FETCH) == FETCH.max_version


@pytest.mark.parametrize("ranges", [{}, {ApiKey.FETCH: (0, 3)}, {ApiKey.FETCH: (90, 99)}])
def test_no_common_version_is_an_error_that_names_the_api(
    ranges: dict[int, tuple[int, int]],
) -> None:
    with pytest.raises(UnsupportedByBroker, match="Fetch"):
        VersionRanges(ranges).pick(FETCH)
