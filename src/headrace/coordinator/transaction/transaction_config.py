"""The settings of the transaction coordinator."""

from typing import NamedTuple


class TransactionConfig(NamedTuple):
    """Kafka's defaults."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 3_600_000
    two_phase_commit: bool = False
