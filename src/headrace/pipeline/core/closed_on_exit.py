"""Context managers that close themselves."""

from abc import ABC, abstractmethod
from typing import Self


class ClosedOnExit(ABC):
    """A context manager whose end calls `close`, after an error, too."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Releases the resources."""
