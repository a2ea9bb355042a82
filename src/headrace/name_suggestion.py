"""Suggests the name that was probably meant, for the error about an unknown one. Pure."""

from collections.abc import Iterable
from typing import Final

SIMILAR: Final = 0.6
"""The similarity from which a name is suggested: 0 for nothing in common, 1 for equal names."""


def nearest_name(name: str, known: Iterable[str], cutoff: float = SIMILAR) -> str | None:
    """The known name that is most similar; None if the similarity of all is below `cutoff`."""
    # Imported here because a broker that starts without an error does not need it.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)
