"""Whether one more client may connect."""

from headrace.broker.network.connection_limits import ConnectionCounts, ServerLimits


def limits(most: int = 10, per_ip: int = 10, **overrides: int) -> ServerLimits:
    return ServerLimits(1, 1, 1, most, per_ip, overrides, 1.0)


def counts(*ips: str) -> ConnectionCounts:
    made = ConnectionCounts()
    for ip in ips:
        made.add(ip)
    return made


def test_connections_of_all_addresses_count_towards_max_connections() -> None:
    assert counts("a").reached_limit("c", limits(most=2)) is None
    assert counts("a", "b").reached_limit("c", limits(most=2)) == "max.connections"


def test_connections_of_one_address_count_towards_its_own_limit() -> None:
    two = counts("a", "a")
    assert two.reached_limit("a", limits(per_ip=2)) == "max.connections.per.ip"
    assert two.reached_limit("b", limits(per_ip=2)) is None


def test_an_override_replaces_the_limit_of_its_address() -> None:
    two = counts("a", "a")
    assert two.reached_limit("a", limits(per_ip=2, a=3)) is None
    assert two.reached_limit("b", limits(per_ip=2, b=0)) == "max.connections.per.ip"


def test_a_closed_connection_makes_room_for_another() -> None:
    two = counts("a", "a")
    two.remove("a")
    assert two.reached_limit("a", limits(most=2, per_ip=2)) is None
