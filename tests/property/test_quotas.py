"""The measurements and limits of quotas are those of models that keep every event."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.security.quotas.client_quota import CLIENT_ID, PRODUCER_BYTE_RATE, USER, QuotaEntity
from headrace.security.quotas.quota_limits import Limit, QuotaLimits, applying_entity
from headrace.security.quotas.rate_meter import RateMeter
from headrace.security.quotas.token_bucket import TokenBucket

TICK_S = 0.25  # exact in binary, so that the models compare times exactly
NAMES = ("a", "b", None)


class EveryEvent:
    """A rate meter that keeps all values, and finds the windows anew each time."""

    def __init__(self, windows: int, window_s: float) -> None:
        self.windows = windows
        self.window_s = window_s
        self.events: list[tuple[float, float]] = []

    def live_windows(self, now_s: float) -> list[list[tuple[float, float]]]:
        found: list[list[tuple[float, float]]] = []
        for time_s, value in self.events:
            if not found or time_s - found[-1][0][0] >= self.window_s:
                found.append([])
            found[-1].append((time_s, value))
        total_s = self.windows * self.window_s
        return [each for each in found if now_s - each[-1][0] < total_s]

    def rate(self, now_s: float) -> float:
        live = self.live_windows(now_s)
        elapsed_s = now_s - live[0][0][0] if live else 0.0
        complete = int(elapsed_s / self.window_s)
        elapsed_s += max(0, self.windows - 1 - complete) * self.window_s
        return sum(value for window in live for _, value in window) / max(elapsed_s, 0.001)


@given(
    windows=st.integers(1, 12),
    window_ticks=st.integers(1, 8),
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(-50, 1000)), max_size=40),
)
def test_the_rate_is_that_of_a_model_which_keeps_every_value(
    windows: int, window_ticks: int, steps: list[tuple[int, int]]
) -> None:
    window_s = window_ticks * TICK_S
    meter, model = RateMeter(windows, window_s), EveryEvent(windows, window_s)
    now_s = 1000.0
    for ticks, value in steps:
        now_s += ticks * TICK_S
        assert meter.rate(now_s) == model.rate(now_s)
        meter.record(value, now_s)
        model.events.append((now_s, value))
        assert meter.rate(now_s) == model.rate(now_s)


@given(
    rate=st.integers(1, 50),
    burst_s=st.integers(1, 20),
    steps=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 500)), max_size=40),
)
def test_a_bucket_never_has_more_than_its_burst_and_loses_exactly_what_is_taken(
    rate: int, burst_s: int, steps: list[tuple[int, int]]
) -> None:
    bucket, burst = TokenBucket(), float(rate * burst_s)
    tokens, now_s = burst, 1000.0
    for ticks, taken in steps:
        now_s += ticks * TICK_S
        tokens = min(burst, tokens + rate * ticks * TICK_S)
        assert bucket.tokens(rate, burst, now_s) == tokens
        tokens -= taken
        assert bucket.take(taken, rate, burst, now_s) == tokens


def entities() -> st.SearchStrategy[QuotaEntity]:
    user = st.sampled_from(NAMES).map(lambda name: (USER, name))
    client = st.sampled_from(NAMES).map(lambda name: (CLIENT_ID, name))
    parts = st.one_of(st.tuples(user), st.tuples(client), st.tuples(client, user))
    return parts.map(QuotaEntity)


def limit_by_definition(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str
) -> Limit | None:
    """Kafka's list, written out."""
    pair, of_user, of_client = (user, client_id), (user, None), (None, client_id)
    for parts, scope in (
        (((CLIENT_ID, client_id), (USER, user)), pair),
        (((CLIENT_ID, None), (USER, user)), pair),
        (((USER, user),), of_user),
        (((CLIENT_ID, client_id), (USER, None)), pair),
        (((CLIENT_ID, None), (USER, None)), pair),
        (((USER, None),), of_user),
        (((CLIENT_ID, client_id),), of_client),
        (((CLIENT_ID, None),), of_client),
    ):
        limits = quotas.get(QuotaEntity(parts))
        if limits is not None and PRODUCER_BYTE_RATE in limits:
            return Limit(limits[PRODUCER_BYTE_RATE], scope)
    return None


@given(
    quotas=st.dictionaries(
        entities(),
        st.dictionaries(
            st.sampled_from((PRODUCER_BYTE_RATE, "other")), st.integers(1, 99).map(float)
        ),
        max_size=12,
    ),
    user=st.sampled_from(("a", "b", "c")),
    client_id=st.sampled_from(("a", "b", "c")),
)
def test_the_limit_is_the_first_of_the_list(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str
) -> None:
    limits = QuotaLimits(quotas, PRODUCER_BYTE_RATE)
    limit = limits.find(user, client_id)
    assert limit == limit_by_definition(quotas, user, client_id)
    entity = applying_entity(quotas, PRODUCER_BYTE_RATE, user, client_id)
    assert (entity is None) is (limit is None)
    if entity is not None and limit is not None:
        assert quotas[entity][PRODUCER_BYTE_RATE] == limit.bound
