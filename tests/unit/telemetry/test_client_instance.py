"""Which telemetry requests of a client are accepted: Kafka's rules, line by line."""

from headrace.protocol.errors import ErrorCode
from headrace.telemetry.client_instance import ClientInstance, Push
from headrace.telemetry.subscription import WantedMetrics

INTERVAL_MS = 1000
MAX_BYTES = 100
ID = 7


def instance(interval_ms: int = INTERVAL_MS) -> ClientInstance:
    return ClientInstance(b"i" * 16, {}, WantedMetrics(("*",), interval_ms), ID, 1)


def a_push(
    subscription_id: int = ID, *, terminating: bool = False, codec: int = 0, size: int = 0
) -> Push:
    return Push(subscription_id, terminating, codec, size)


def test_a_first_push_without_a_subscription_request_is_accepted() -> None:
    """The client has moved here from another broker."""
    assert instance().check_push(a_push(), 0, MAX_BYTES) == ErrorCode.NONE


def test_a_get_soon_after_a_push_is_refused() -> None:
    made = instance()
    made.check_push(a_push(), 5000, MAX_BYTES)
    assert made.check_get(5999) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert made.check_get(6000) == ErrorCode.NONE


def test_the_time_is_checked_before_the_id_the_id_before_the_codec_the_codec_before_the_size() -> (
    None
):
    made = instance()
    wrong = a_push(ID + 1, codec=9, size=MAX_BYTES + 1)
    made.check_push(a_push(), 0, MAX_BYTES)
    assert made.check_push(wrong, 1, MAX_BYTES) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert made.check_push(wrong, 1000, MAX_BYTES) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    wrong = wrong._replace(subscription_id=ID)
    assert made.check_push(wrong, 2000, MAX_BYTES) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    wrong = wrong._replace(compression_type=4)
    assert made.check_push(wrong, 3000, MAX_BYTES) == ErrorCode.TELEMETRY_TOO_LARGE
    assert made.check_push(a_push(size=MAX_BYTES), 4000, MAX_BYTES) == ErrorCode.NONE


def test_a_refused_push_counts_for_the_interval_only_if_its_time_was_right() -> None:
    made = instance()
    made.check_push(a_push(), 0, MAX_BYTES)
    made.check_push(a_push(), 999, MAX_BYTES)
    assert made.check_push(a_push(ID + 1), 1000, MAX_BYTES) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert made.check_push(a_push(), 1999, MAX_BYTES) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_asks_again_at_once_only_after_two_errors() -> None:
    made = instance()
    made.check_get(0)
    made.check_push(a_push(size=MAX_BYTES + 1), 0, MAX_BYTES)
    assert made.check_get(1) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    made.check_push(a_push(ID + 1), 1000, MAX_BYTES)
    assert made.check_get(1001) == ErrorCode.NONE
    assert made.check_get(1002) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_push_after_a_terminating_one_is_refused() -> None:
    made = instance()
    assert made.check_push(a_push(terminating=True), 0, MAX_BYTES) == ErrorCode.NONE
    assert made.check_push(a_push(terminating=True), 9000, MAX_BYTES) == ErrorCode.INVALID_REQUEST


def test_an_instance_is_kept_for_three_intervals_and_at_least_a_minute() -> None:
    assert instance(100).expiry_ms == 60_000
    assert instance(300_000).expiry_ms == 900_000
