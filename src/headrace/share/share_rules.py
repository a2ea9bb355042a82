"""The settings of a share group for its partitions; they may change at any time."""

from typing import NamedTuple


class ShareRules(NamedTuple):
    """Kafka's defaults."""

    lock_ms: int = 30_000
    max_deliveries: int = 5
    max_locks: int = 2_000
    """Offsets between the first record that is not finished and the last delivered one."""
    renew_enabled: bool = True
    dead_letters: bool = False
    """Whether failed records are copied to a dead-letter topic before they are archived."""
