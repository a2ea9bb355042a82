"""Errors that end a broker's start or stop, with messages for the operator."""


class StartupError(Exception):
    """The broker did not start; the message says why and what to do."""


class StopTimedOut(Exception):
    """Logs were not flushed in time: without a clean-shutdown marker the next start recovers."""
