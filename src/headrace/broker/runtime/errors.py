"""Errors that end a broker's start or stop, in words for the operator."""


class StartupError(Exception):
    """The broker did not start; the message says why and what to do."""


class StopTimedOut(Exception):
    """The disk did not take everything in time: there is no marker, the next start recovers."""
