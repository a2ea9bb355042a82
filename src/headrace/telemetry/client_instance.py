"""One client instance: which of its telemetry requests are accepted, and when.

A client asks for its subscription once per interval, and pushes once per interval. Exceptions:

* The first push after a subscription may come at any time: clients jitter it between half and one
  and a half intervals, so that they do not push all at once.
* A terminating push may come at any time, and nothing may follow it.
* After UNKNOWN_SUBSCRIPTION_ID and UNSUPPORTED_COMPRESSION_TYPE a client asks again at once.

A change of the subscription makes a new instance, whose times start again.
"""

from typing import Final, NamedTuple

from headrace.cluster.client_match import ClientAttributes
from headrace.protocol.errors import ErrorCode
from headrace.records.codec import Codec
from headrace.telemetry.subscription import WantedMetrics

MIN_EXPIRY_MS: Final = 60_000
INTERVALS_TO_EXPIRY: Final = 3
_NEVER: Final = -(1 << 62)
_CODECS: Final = frozenset(Codec)
_ASK_AGAIN_AT_ONCE: Final = (
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)


class Push(NamedTuple):
    """What a PushTelemetry request says about itself."""

    subscription_id: int
    terminating: bool
    compression_type: int
    size_bytes: int


class ClientInstance:
    """The state of one client that asks for a subscription or pushes metrics."""

    __slots__ = (
        "_last_get_ms",
        "_last_push_ms",
        "attributes",
        "expires_at_ms",
        "id",
        "last_error",
        "subscription_id",
        "subscriptions_version",
        "terminating",
        "wanted",
    )

    def __init__(
        self,
        instance_id: bytes,
        attributes: ClientAttributes,
        wanted: WantedMetrics,
        subscription_id: int,
        subscriptions_version: int,
    ) -> None:
        self.id = instance_id
        self.attributes = attributes
        self.wanted = wanted
        self.subscription_id = subscription_id
        self.subscriptions_version = subscriptions_version
        self.terminating = False
        self.last_error = ErrorCode.NONE
        self.expires_at_ms = 0
        self._last_get_ms = _NEVER
        self._last_push_ms = _NEVER

    @property
    def expiry_ms(self) -> int:
        """How long the instance is kept after its last request."""
        return max(MIN_EXPIRY_MS, INTERVALS_TO_EXPIRY * self.wanted.interval_ms)

    def check_get(self, now_ms: int) -> ErrorCode:
        """Accepts or refuses a GetTelemetrySubscriptions."""
        last_ms = max(self._last_get_ms, self._last_push_ms)
        if now_ms - last_ms >= self.wanted.interval_ms:
            self._last_get_ms = now_ms
        elif self.last_error not in _ASK_AGAIN_AT_ONCE:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.last_error = ErrorCode.NONE
        return ErrorCode.NONE

    def check_push(self, push: Push, now_ms: int, max_bytes: int) -> ErrorCode:
        """Accepts or refuses a PushTelemetry, in Kafka's order of checks."""
        self.last_error = self._check_push(push, now_ms, max_bytes)
        self.terminating = push.terminating
        return self.last_error

    def _check_push(self, push: Push, now_ms: int, max_bytes: int) -> ErrorCode:
        if self.terminating:
            return ErrorCode.INVALID_REQUEST
        if not self._accept_push_time(now_ms) and not push.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != self.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in _CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size_bytes > max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _accept_push_time(self, now_ms: int) -> bool:
        is_first = self._last_get_ms > self._last_push_ms
        if not is_first and now_ms - self._last_push_ms < self.wanted.interval_ms:
            return False
        self._last_push_ms = now_ms
        return True
