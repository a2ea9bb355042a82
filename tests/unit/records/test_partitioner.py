"""Partitioners: keys go where Java clients put them; other records stick, then move."""

import itertools
from random import Random

import pytest

from headrace.records.partitioner import StickyPartitioner, murmur2, partition_for_key

# From Apache Kafka 4.3.1's Utils.murmur2, which is signed.
BY_KAFKA = [
    (b"", 275646681),
    (b"a", -1563381124),
    (b"ab", 316155434),
    (b"abc", 479470107),
    (b"abcd", -1323649548),
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ("été".encode(), -2101193575),
    (bytes.fromhex("fffe8081f09fff"), 868699138),
]


@pytest.mark.parametrize(("key", "hashed"), BY_KAFKA)
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


def test_a_key_has_one_partition() -> None:
    assert partition_for_key(bytes.fromhex("fffe8081f09fff"), 7) == 6
    # The sign bit is cleared, not the magnitude taken.
    assert partition_for_key(b"a", 10) == (-1563381124 & 0x7FFFFFFF) % 10


def test_a_partition_is_used_for_sticky_bytes_and_then_left() -> None:
    sticky = StickyPartitioner(Random(1), sticky_bytes=100)
    chosen = [sticky.partition(range(8), 25) for _ in range(400)]
    runs = [chosen[start : start + 4] for start in range(0, 400, 4)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(one[0] != two[0] for one, two in itertools.pairwise(runs))
    assert set(chosen) == set(range(8))


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = StickyPartitioner(Random(2))
    first = sticky.partition([0, 1], 1)
    assert sticky.partition([1 - first], 1) == 1 - first


def test_the_only_partition_is_chosen_again() -> None:
    sticky = StickyPartitioner(Random(3), sticky_bytes=1)
    assert [sticky.partition([4], 10) for _ in range(3)] == [4, 4, 4]


def test_the_same_seed_makes_the_same_choices() -> None:
    one, two = (StickyPartitioner(Random(4), sticky_bytes=1) for _ in range(2))
    assert [one.partition(range(9), 1) for _ in range(50)] == [
        two.partition(range(9), 1) for _ in range(50)
    ]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="sticky_bytes"):
        StickyPartitioner(Random(5), sticky_bytes=0)
    with pytest.raises(ValueError, match="available"):
        StickyPartitioner(Random(5)).partition([], 1)
