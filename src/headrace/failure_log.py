"""The log of an operation that is retried until it succeeds.

The first failure is logged, and each one with another reason; the same failure again is at DEBUG.
The line about the recovery has the number of failures.
"""

import logging


class FailureLog:
    """The failures of one operation since it last succeeded."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._reason: str | None = None
        self._failures = 0

    @property
    def has_failed(self) -> bool:
        """Whether the operation has failed since its last success."""
        return self._failures > 0

    def failed(
        self,
        level: int,
        sentence: str,
        *args: object,
        reason: str,
        fields: dict[str, object] | None = None,
    ) -> None:
        """Logs a failure; `reason` becomes the field `error`."""
        is_new = reason != self._reason
        self._reason = reason
        self._failures += 1
        extra = {**(fields or {}), "error": reason}
        self._log.log(level if is_new else logging.DEBUG, sentence, *args, extra=extra)

    def succeeded(self, sentence: str, **fields: object) -> None:
        """Logs the recovery, if there were failures."""
        if self._failures:
            self._log.info(sentence, extra={**fields, "failures": self._failures})
            self._reason, self._failures = None, 0

    def reset(self) -> None:
        """Forgets the failures without a line."""
        self._reason, self._failures = None, 0
