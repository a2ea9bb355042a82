"""Counts the error codes of a response, wherever its structure has them.

As in Kafka, each error code of a response counts, NONE included: one for each partition of a Fetch,
for example. The function that counts them is made once for each class of responses.
"""

from collections.abc import Callable
from typing import Any, Final

from headrace.protocol.layout import fields_of
from headrace.protocol.struct import Struct

ERROR_CODE: Final = "error_code"

CountErrors = Callable[[Any, dict[int, int]], None]
"""Adds the error codes of a response to the counts."""


def error_counter(cls: type[Struct]) -> CountErrors | None:
    """Counts the error codes in instances of `cls`; None if these have none."""
    fields = fields_of(cls)
    has_own = any(field.name == ERROR_CODE for field in fields)
    inner = tuple(
        (field.name, field.array, count)
        for field in fields
        if field.struct is not None and (count := error_counter(field.struct)) is not None
    )
    if not inner:
        return _count_own if has_own else None

    def count_all(value: Any, counts: dict[int, int]) -> None:  # noqa: ANN401  # any response
        if has_own:
            _count_own(value, counts)
        for name, is_array, count in inner:
            found = getattr(value, name)
            if found is None:
                continue
            if is_array:
                for each in found:
                    count(each, counts)
            else:
                count(found, counts)

    return count_all


def _count_own(value: Any, counts: dict[int, int]) -> None:  # noqa: ANN401
    code = value.error_code
    counts[code] = counts.get(code, 0) + 1
