"""Errors that end a broker's start or stop, in words for the operator."""


class StartupError(Exception):
    """The broker did not start; the message says why and what to do."""


class StopTimedOut(Exception):
    """The logs were not flushed in time: no clean-shutdown marker, so the next start recovers."""
