"""Which version of each API a broker and this client both speak.

The client asks with the newest ApiVersions it knows. A broker that does not know that version
answers in version 0 and, from Kafka 2.4 on, says which it would take (KIP-511).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.connection import ClientConnection
from headrace.client.errors import (
    BadResponse,
    RequestRefused,
    UnsupportedByBroker,
    code_of_number,
)
from headrace.protocol.api import APIS, ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode, MalformedMessage
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_CORRELATION_BYTES = 4
_SOFTWARE_NAME = "headrace"


@dataclass(frozen=True, slots=True)
class VersionRanges:
    """What one broker serves: the first and last version by API key."""

    ranges: Mapping[int, tuple[int, int]]

    def pick(self, spec: ApiSpec, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that both sides speak, from `at_least` up to `at_most`."""
        served = self.ranges.get(spec.key)
        if served is None:
            raise UnsupportedByBroker(f"the broker does not serve {spec.name}")
        lowest = max(served[0], spec.min_version, at_least)
        highest = min(served[1], spec.max_version)
        if at_most is not None:
            highest = min(highest, at_most)
        if lowest > highest:
            raise UnsupportedByBroker(
                f"the broker serves {spec.name} {served[0]} to {served[1]}, this client speaks "
                f"{max(spec.min_version, at_least)} to "
                f"{min(spec.max_version, at_most or spec.max_version)}"
            )
        return highest


async def negotiate(
    connection: ClientConnection, *, software_version: str, timeout_s: float
) -> VersionRanges:
    """Ask what the broker serves; two round trips at most."""
    spec = APIS[ApiKey.API_VERSIONS]
    version = spec.max_version
    answer = await _ask(connection, spec, version, software_version, timeout_s)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = _fallback(answer, spec)
        answer = await _ask(connection, spec, version, software_version, timeout_s)
    if answer.error_code:
        raise RequestRefused(code_of_number(answer.error_code), f"{connection.address} ApiVersions")
    return VersionRanges(
        {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    )


def _fallback(answer: ApiVersionsResponse, spec: ApiSpec) -> int:
    """The version the refusing broker hinted at; without a hint 0, which every broker speaks."""
    hinted = [api.max_version for api in answer.api_keys if api.api_key == spec.key]
    return min(max(hinted, default=0), spec.max_version - 1)


async def _ask(
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
    # A refusal comes in version 0, whatever was asked; the error code stands first in all.
    refused = int.from_bytes(body[:2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
    try:
        return ApiVersionsResponse.decode(body, 0 if refused else version)
    except MalformedMessage as error:
        await connection.close()
        raise BadResponse(f"{connection.address} answered ApiVersions badly: {error}") from error
