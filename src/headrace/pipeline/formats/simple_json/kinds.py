"""The elements of the compiled reader's tables."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ends = NDArray[np.int32]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]

STRUCT: Final = 0
LIST: Final = 1
MAP: Final = 2
STRING: Final = 3
INTEGER: Final = 4
DOUBLE: Final = 5
FLOAT: Final = 6
BOOLEAN: Final = 7
DECIMAL: Final = 8
DATE: Final = 9
TIMESTAMP: Final = 10
TIMESTAMP_NTZ: Final = 11

DONE: Final = -1
"""All rows are read. Any other result is the index of the node that is full."""
