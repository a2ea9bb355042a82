"""What every decoder of single records offers to the tasks."""

from typing import Protocol

from headrace.pipeline.formats.bad_record import BadRecord


class Undecodable(Exception):
    """One record is bad."""

    def __init__(self, kind: BadRecord, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Decoder(Protocol):
    """Picklable; keeps no state but caches of its process."""

    def decode(self, data: bytes) -> dict[str, object]:
        """The columns; raises `Undecodable`. Any other error stops the batch."""
