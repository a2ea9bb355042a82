"""Which open transactions have exceeded `transaction.timeout.ms`."""

from collections.abc import Iterable, Iterator

from headrace.coordinator.transaction.transaction import NEVER_MS, Transaction


class TransactionTimeouts:
    """Finds overdue transactions, also if an earlier coordinator's clock was ahead."""

    def __init__(self) -> None:
        self._noticed_ms: dict[str, int] = {}  # transactions with a start in the future

    def changed(self, transactional_id: str) -> None:
        """The transaction has a new record."""
        self._noticed_ms.pop(transactional_id, None)

    def overdue(self, ongoing: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        for one in ongoing:
            started_ms = one.started_ms
            if started_ms > now_ms:
                # An earlier clock was ahead: the timeout starts now.
                started_ms = self._noticed_ms.setdefault(one.transactional_id, now_ms)
            if one.timeout_ms != NEVER_MS and started_ms + one.timeout_ms < now_ms:
                yield one
