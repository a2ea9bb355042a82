"""Certificates of listeners that expire soon or have expired: one line a day for each. Pure."""

import datetime as dt
from collections.abc import Iterator, Mapping
from logging import ERROR, WARNING
from typing import Final

from headrace.log_event import LogEvent
from headrace.security.tls.certificate import Certificate

SOON_DAYS: Final = 30
REMINDER_MS: Final = 24 * 3600 * 1000
_DAY_MS: Final = 24 * 3600 * 1000


class ExpiryLog:
    """Called periodically with the certificates in use."""

    def __init__(self) -> None:
        self._logged_ms: dict[tuple[str, dt.datetime], int] = {}

    def update(self, certificates: Mapping[str, Certificate], now_ms: int) -> Iterator[LogEvent]:
        """The lines that are due; `certificates` are those of each listener."""
        for listener, certificate in certificates.items():
            left_ms = round(certificate.not_after.timestamp() * 1000) - now_ms
            if left_ms > SOON_DAYS * _DAY_MS:
                continue
            key = (listener, certificate.not_after)
            logged_ms = self._logged_ms.get(key)
            if logged_ms is not None and 0 <= now_ms - logged_ms < REMINDER_MS:
                continue
            self._logged_ms[key] = now_ms
            yield _event(listener, certificate, left_ms)


def _event(listener: str, certificate: Certificate, left_ms: int) -> LogEvent:
    fields: dict[str, object] = {
        "listener": listener,
        "subject": certificate.subject,
        "not_after": certificate.not_after.isoformat(),
    }
    if left_ms <= 0:
        return LogEvent(ERROR, "the certificate of a listener has expired", fields)
    fields["days"] = left_ms // _DAY_MS
    return LogEvent(WARNING, "the certificate of a listener expires soon", fields)
