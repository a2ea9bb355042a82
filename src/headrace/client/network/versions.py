"""Version negotiation: the versions of each API that a broker and this client both support.

The client sends the newest ApiVersions version it supports. A broker that does not support it
answers in version 0 and, since Kafka 2.4, says which versions it supports (KIP-511).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.errors import (
    BadResponse,
    UnsupportedByBroker,
    check_error_code,
)
from headrace.client.network.connection import ClientConnection
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode, MalformedMessage
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_CORRELATION_BYTES = 4
_SOFTWARE_NAME = "headrace"


@dataclass(frozen=True, slots=True)
class VersionRanges:
    """The first and last version that one broker supports, by API key."""

    ranges: Mapping[int, tuple[int, int]]

    def pick(self, spec: ApiSpec, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that both sides support, from `at_least` to `at_most`."""
        served = self.ranges.get(spec.key)
        if served is None:
            raise UnsupportedByBroker(f"the broker does not support {spec.name}")
        lowest = max(served[0], spec.min_version, at_least)
        highest = min(served[1], spec.max_version)
        if at_most is not None:
            highest = min(highest, at_most)
        if lowest > highest:
            raise UnsupportedByBroker(
                f"the broker supports {spec.name} {served[0]} to {served[1]}, this client needs "
                f"{max(spec.min_version, at_least)} to "
                f"{min(spec.max_version, at_most or spec.max_version)}"
            )
        return highest


async def negotiate(
    connection: ClientConnection, *, software_version: str, timeout_s: float
) -> VersionRanges:
    """Requests the versions that the broker supports; at most two round trips."""
    spec = APIS[ApiKey.API_VERSIONS]
    version = spec.max_version
    answer = await _request_versions(connection, spec, version, software_version, timeout_s)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = _fallback_version(answer, spec)
        answer = await _request_versions(connection, spec, version, software_version, timeout_s)
    check_error_code(answer.error_code, f"{connection.address} refused ApiVersions")
    return VersionRanges(
        {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    )


def _fallback_version(answer: ApiVersionsResponse, spec: ApiSpec) -> int:
    """The version that the broker's error suggests, or 0, which every broker supports."""
    hinted = [api.max_version for api in answer.api_keys if api.api_key == spec.key]
    return min(max(hinted, default=0), spec.max_version - 1)


async def _request_versions(
    connection: ClientConnection,
    spec: ApiSpec,
    version: int,
    software_version: str,
    timeout_s: float,
) -> ApiVersionsResponse:
    request = ApiVersionsRequest(
        client_software_name=_SOFTWARE_NAME, client_software_version=software_version
    )
    frame = await connection.exchange(spec, version, request, timeout_s=timeout_s)
    body = memoryview(frame)[_CORRELATION_BYTES:]
    # An UNSUPPORTED_VERSION response is in version 0; the error code is first in every version.
    refused = int.from_bytes(body[:2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
    try:
        return ApiVersionsResponse.decode(body, 0 if refused else version)
    except MalformedMessage as error:
        await connection.close()
        raise BadResponse(
            f"{connection.address} sent a malformed response to ApiVersions: {error}"
        ) from error
