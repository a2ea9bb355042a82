"""The interface of the decoders that tasks use for single records."""

from typing import Protocol

from headrace.pipeline.formats.bad_record import BadRecord


class Undecodable(Exception):
    """A record cannot be decoded."""

    def __init__(self, kind: BadRecord, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Decoder(Protocol):
    """Decodes records. It is picklable. Its only state is the caches of its process."""

    def decode(self, data: bytes) -> dict[str, object]:
        """Returns the columns. Raises `Undecodable`. Any other error stops the batch."""
