"""What is wrong with a format as a whole; a single bad record is `_error`, never this."""


class FormatError(ValueError):
    """A schema or a registry that a person must correct: what it is, and what to do."""


class RegistryError(FormatError):
    """The schema registry refuses, or is none: no record can be blamed for that."""


class RegistryUnreachable(RegistryError):
    """The schema registry does not answer; the batch must be tried again, not thrown away."""
