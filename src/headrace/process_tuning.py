"""The process around a broker: its event loop, its allocator and its garbage collector.

glibc gives every block above a threshold its own mapping and returns it to the kernel when it is
freed. A broker that reads a megabyte for each fetch would then spend more time on page faults than
on copying. With higher thresholds the same pages are reused.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
MMAP_THRESHOLD_BYTES: Final = 32 * 1024 * 1024  # the highest value that every glibc accepts
TRIM_THRESHOLD_BYTES: Final = 64 * 1024 * 1024  # free memory that is kept at the top of the heap

# Requests create almost no reference cycles, so collections can be rare.
GC_THRESHOLDS: Final = (50_000, 20, 50)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's factory if it is installed; None means asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def keep_freed_memory() -> bool:
    """Raises glibc's thresholds; False with another allocator."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has no mallopt
        return False
    mmap_raised = mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
    trim_raised = mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    return bool(mmap_raised and trim_raised)


def collect_rarely() -> None:
    """Exempts all current objects from garbage collection: they last as long as the process."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
