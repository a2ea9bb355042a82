"""Why a broker cannot start, in words for the person who started it."""


class StartupError(Exception):
    """The broker did not start; the message says why and what to do."""
