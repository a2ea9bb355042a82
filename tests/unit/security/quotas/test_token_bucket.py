"""A bucket fills at a rate up to a burst, and one request may take more than it has."""

from headrace.security.quotas.token_bucket import TokenBucket

RATE, BURST = 5.0, 500.0


def test_a_new_bucket_is_full() -> None:
    assert TokenBucket().tokens(RATE, BURST, 100.0) == BURST


def test_a_burst_takes_more_than_there_is_and_refills_at_the_rate() -> None:
    bucket = TokenBucket()
    assert bucket.take(560, RATE, BURST, 100.0) == -60  # the example of Kafka's TokenBucket
    assert bucket.tokens(RATE, BURST, 106.0) == -30
    assert bucket.tokens(RATE, BURST, 112.0) == 0
    assert bucket.tokens(RATE, BURST, 1000.0) == BURST


def test_a_bucket_that_was_not_below_zero_is_full_after_the_time_of_all_windows() -> None:
    bucket = TokenBucket()
    bucket.take(500, RATE, BURST, 100.0)
    assert not bucket.is_full_after(100.0, 199.0)
    assert bucket.is_full_after(100.0, 200.0)
    bucket.take(600, RATE, BURST, 200.0)
    assert not bucket.is_full_after(100.0, 300.0)
