"""The offset at which a share group starts to read a new partition."""

import re
from typing import Final

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_UNITS_S: Final = (86_400, 3_600, 60, 1)


def reset_age_ms(strategy: str) -> int | None:
    """The maximum age of records under `by_duration:PnDTnHnMnS`; None for another strategy."""
    if not strategy.lower().startswith(_BY_DURATION):
        return None
    match = _DURATION.fullmatch(strategy[len(_BY_DURATION) :])
    if match is None:
        return None
    parts = zip(match.groups(), _UNITS_S, strict=True)
    return round(sum(float(number) * unit for number, unit in parts if number) * 1000)
