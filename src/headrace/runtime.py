"""The process around a broker: its event loop, its allocator and its garbage collector.

glibc gives every block above a threshold its own mapping and returns it to the kernel when it is
freed: a broker that reads a megabyte for each fetch then pays more for page faults than for
copying. With higher thresholds the same pages are used again.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
MMAP_THRESHOLD_BYTES: Final = 32 * 1024 * 1024  # the highest that every glibc takes
TRIM_THRESHOLD_BYTES: Final = 64 * 1024 * 1024  # free memory on top of the heap that is kept

# Requests leave next to no reference cycles behind: look for them rarely.
GC_THRESHOLDS: Final = (50_000, 20, 50)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it has a wheel; None is asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def keep_freed_memory() -> bool:
    """Raises glibc's thresholds; False where there is another allocator."""
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
    """What lives now lives as long as the process: the collector need not look at it again."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
