"""When one more client may connect."""

from math import inf

from headrace.broker.network.connection_limits import (
    ConnectionQuotas,
    ListenerLimits,
    ServerLimits,
)

OUTSIDE, INSIDE = "OUTSIDE", "INSIDE"


def limits(most: int = 10, per_ip: int = 10, **overrides: int) -> ServerLimits:
    return ServerLimits(1, 1, 1, most, per_ip, overrides, 1.0)


def quotas(*ips: str, listener: str = OUTSIDE) -> ConnectionQuotas:
    made = ConnectionQuotas()
    for ip in ips:
        made.add(listener, ip)
    return made


def test_at_max_connections_the_next_one_waits_until_one_ends() -> None:
    two = quotas("a", "b")
    assert two.delay_s(OUTSIDE, limits(most=3), 0.0) == 0
    assert two.delay_s(OUTSIDE, limits(most=2), 0.0) == inf
    two.remove(OUTSIDE, "a")
    assert two.delay_s(OUTSIDE, limits(most=2), 0.0) == 0


def test_the_listener_of_the_brokers_is_exempt_from_the_limits_of_the_whole_broker() -> None:
    two = quotas("a", "b")
    two.exempt_listener = INSIDE
    few = limits(most=2)._replace(max_creation_rate=0)
    assert two.delay_s(INSIDE, few, 0.0) == 0
    assert two.delay_s(OUTSIDE, few, 0.0) == inf


def test_a_limit_of_a_listener_counts_only_its_own_connections() -> None:
    two = quotas("a", "b")
    two.exempt_listener = INSIDE
    own = limits()._replace(listeners={OUTSIDE: ListenerLimits(2), INSIDE: ListenerLimits(1)})
    assert two.delay_s(OUTSIDE, own, 0.0) == inf
    assert two.delay_s(INSIDE, own, 0.0) == 0
    two.add(INSIDE, "a")
    assert two.delay_s(INSIDE, own, 0.0) == inf


def test_connections_come_no_faster_than_the_rate() -> None:
    made, rate = ConnectionQuotas(), limits()._replace(max_creation_rate=2)
    waits = []
    for _ in range(3):
        waits.append(made.delay_s(OUTSIDE, rate, 100.0))
        made.count_accept(OUTSIDE)
    assert waits == [0, 0, 0.5]
    assert made.delay_s(OUTSIDE, rate, 101.0) == 0


def test_a_listener_with_a_rate_does_not_slow_down_another() -> None:
    made = ConnectionQuotas()
    own = limits()._replace(listeners={OUTSIDE: ListenerLimits(max_creation_rate=1)})
    made.delay_s(OUTSIDE, own, 0.0)
    made.count_accept(OUTSIDE)
    assert made.delay_s(OUTSIDE, own, 0.0) == 1
    assert made.delay_s(INSIDE, own, 0.0) == 0


def test_connections_of_one_address_count_towards_its_own_limit() -> None:
    two = quotas("a", "a")
    assert two.exceeds_ip_limit("a", limits(per_ip=2))
    assert not two.exceeds_ip_limit("b", limits(per_ip=2))


def test_an_override_replaces_the_limit_of_its_address() -> None:
    two = quotas("a", "a")
    assert not two.exceeds_ip_limit("a", limits(per_ip=2, a=3))
    assert two.exceeds_ip_limit("b", limits(per_ip=2, b=0))


def test_a_closed_connection_makes_room_for_another_of_its_address() -> None:
    two = quotas("a", "a")
    two.remove(OUTSIDE, "a")
    assert not two.exceeds_ip_limit("a", limits(per_ip=2))
