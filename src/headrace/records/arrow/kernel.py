"""The parameters and results of the decoder's inner loop, which is in `compiled`.

The loop is loaded when the first batch is decoded: numba takes half a second to import, and most of
Spark's Python processes only plan and never decode.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ends = NDArray[np.int32]
Numbers = NDArray[np.int64]

DONE: Final = 0
TRUNCATED: Final = 1
BAD_LENGTH: Final = 2
TRAILING: Final = 3
BAD_HEADER: Final = 4
BAD_DELTA: Final = 5

REASONS: Final = {
    TRUNCATED: "it ends in the middle of a field",
    BAD_LENGTH: "a length runs past the end of the record",
    TRAILING: "its fields do not end where the record does",
    BAD_HEADER: "a header has no name, or there are more headers than bytes",
    BAD_DELTA: "its offset is not within its batch",
}

# Cursors: the filled part of the arrays.
ROWS: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
HEADERS: Final = 3
HEADER_NAME_BYTES: Final = 4
HEADER_VALUE_BYTES: Final = 5
CURSORS: Final = 6


@cache
def decoder() -> Callable[..., tuple[int, int]]:
    """`compiled.decode`."""
    from headrace.records.arrow.compiled import decode

    return decode
