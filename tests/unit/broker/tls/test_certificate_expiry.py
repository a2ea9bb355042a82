"""A certificate that expires soon is logged once a day."""

import datetime as dt
from logging import ERROR, WARNING

from headrace.broker.tls.certificate_expiry import REMINDER_MS, SOON_DAYS, ExpiryLog
from headrace.security.tls.certificate import Certificate

END = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
END_MS = round(END.timestamp() * 1000)
DAY_MS = 86_400_000
IN_USE = {"SSL": Certificate("CN=broker", frozenset(), END)}


def test_it_is_silent_until_a_month_before_the_end_and_then_logs_once_a_day() -> None:
    log = ExpiryLog()
    first_ms = END_MS - SOON_DAYS * DAY_MS
    assert list(log.update(IN_USE, first_ms - 1)) == []
    (event,) = log.update(IN_USE, first_ms)
    assert event.level == WARNING
    assert event.fields == {
        "listener": "SSL",
        "subject": "CN=broker",
        "not_after": "2026-12-01T00:00:00+00:00",
        "days": SOON_DAYS,
    }
    assert list(log.update(IN_USE, first_ms + REMINDER_MS - 1)) == []
    assert len(list(log.update(IN_USE, first_ms + REMINDER_MS))) == 1


def test_an_expired_certificate_is_an_error() -> None:
    (event,) = ExpiryLog().update(IN_USE, END_MS)
    assert (event.level, event.sentence) == (ERROR, "the certificate of a listener has expired")


def test_a_new_certificate_is_logged_for_itself() -> None:
    log = ExpiryLog()
    list(log.update(IN_USE, END_MS))
    renewed = {"SSL": IN_USE["SSL"]._replace(not_after=END + dt.timedelta(days=5))}
    assert len(list(log.update(renewed, END_MS))) == 1
