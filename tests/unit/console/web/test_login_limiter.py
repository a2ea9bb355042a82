"""Failed logins are limited, by address and by name."""

from headrace.console.web.login_limiter import (
    FIRST_WAIT_S,
    FREE_FAILURES,
    LONGEST_WAIT_S,
    MAX_TRACKED,
    LoginLimiter,
)

KEYS = ("address:a", "user:u")


def test_the_wait_begins_after_some_failures_and_doubles_up_to_a_limit() -> None:
    limiter = LoginLimiter()
    for number in range(FREE_FAILURES):
        assert limiter.wait_s(KEYS, number) == 0
        limiter.failed(KEYS, number)
    now_s = FREE_FAILURES - 1
    assert limiter.wait_s(KEYS, now_s) == FIRST_WAIT_S
    limiter.failed(KEYS, now_s)
    assert limiter.wait_s(KEYS, now_s) == 2 * FIRST_WAIT_S
    for _ in range(100):
        limiter.failed(KEYS, now_s)
    assert limiter.wait_s(KEYS, now_s) == LONGEST_WAIT_S
    assert limiter.wait_s(KEYS, now_s + LONGEST_WAIT_S) == 0


def test_another_address_waits_for_the_same_user_only() -> None:
    limiter = LoginLimiter()
    for _ in range(FREE_FAILURES):
        limiter.failed(KEYS, 0)
    assert limiter.wait_s(("address:b", "user:u"), 0) > 0
    assert limiter.wait_s(("address:b", "user:other"), 0) == 0


def test_a_success_takes_back_only_its_own_attempt() -> None:
    limiter = LoginLimiter()
    for _ in range(FREE_FAILURES):
        limiter.failed(KEYS, 0)
    limiter.failed(KEYS, 0)
    limiter.succeeded(KEYS)
    assert limiter.wait_s(KEYS, 0) == FIRST_WAIT_S


def test_the_memory_is_bounded() -> None:
    limiter = LoginLimiter()
    for number in range(MAX_TRACKED + 50):
        limiter.failed((f"user:{number}",), 0)
    assert len(limiter._failures) == MAX_TRACKED
