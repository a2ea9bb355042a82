"""A seed gives a plan, the same every time, with every kind of fault in it."""

from chaos.faults import DISKS, LASTS_S, NETWORK, ON_ZOOKEEPER, kinds, plan

EVERYTHING = kinds(network=True, zookeeper=True, mounts=True)


def test_a_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert plan(7, 300, EVERYTHING, 8) == plan(7, 300, EVERYTHING, 8)
    assert plan(7, 300, EVERYTHING, 8) != plan(8, 300, EVERYTHING, 8)


def test_every_kind_of_fault_occurs_before_any_repeats() -> None:
    planned = [fault.kind for fault in plan(3, 600, EVERYTHING, 8)]
    assert set(planned[: len(EVERYTHING)]) == set(EVERYTHING) == set(LASTS_S)


def test_a_plan_fits_into_its_time_and_is_never_empty() -> None:
    for seed in range(50):
        planned = plan(seed, 60, EVERYTHING, 8)
        assert sum(fault.peace_s + fault.lasts_s for fault in planned) <= 60
        assert plan(seed, 0.1, EVERYTHING, 8)


def test_unsupported_faults_are_not_planned() -> None:
    possible = kinds(network=False, zookeeper=False, mounts=False)
    assert possible
    assert not set(possible) & {*NETWORK, *ON_ZOOKEEPER, *DISKS}
