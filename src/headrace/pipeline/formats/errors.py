"""Errors of a format as a whole. The error of a single record is in its column `_error`."""


class FormatError(ValueError):
    """A schema or a registry setting is invalid. The message says what to do."""


class RegistryError(FormatError):
    """The schema registry rejects a request, or the URL is not a schema registry."""


class RegistryUnreachable(RegistryError):
    """The schema registry does not answer. The batch is retried."""
