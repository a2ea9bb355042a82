"""Why a broker cannot start, stop or decide; the first two in words for who runs it."""


class StartupError(Exception):
    """The broker did not start; the message says why and what to do."""


class StopTimedOut(Exception):
    """The disk did not take everything in time: there is no marker, the next start recovers."""


class NotController(Exception):
    """Another broker decides about metadata now. What was asked did not happen, as a rule."""
