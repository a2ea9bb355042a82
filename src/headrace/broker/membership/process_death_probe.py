"""Sees at once that another broker's process has ended.

When a process dies, the system ends its connections and refuses new ones. Both together mean a
crash: the broker is fenced without waiting for its session. Silence means nothing yet: a machine
or a network that stands still looks the same, and only the session's end decides. A false alarm
costs a needless election and no record: commits are fenced, and a live broker registers again.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import Final

from headrace.client.connection import Address

CONNECT_TIMEOUT_S: Final = 0.1
"""While a listening socket is being closed the kernel drops what comes for it, and TCP would ask
again after a second only."""
SILENCE_S: Final = 1.0
"""Who neither accepts nor refuses for so long is silent."""
STAYS_S: Final = 1.0
"""A connection that lasts this long was accepted by a live process."""
PAUSE_S: Final = 0.01
MAX_ATTEMPTS: Final = 20
ATTEMPTS_PER_SILENCE: Final = round(MAX_ATTEMPTS * CONNECT_TIMEOUT_S / SILENCE_S)


async def has_crashed(address: Address, has_returned: Callable[[], bool]) -> bool:
    """After a connection to it has ended: whether nobody listens there any more.

    A process that is about to end may still accept for an instant; such a connection ends soon
    and the question is asked again. `has_returned` says that the broker was heard of meanwhile.
    """
    attempts = MAX_ATTEMPTS
    while attempts > 0 and not has_returned():
        try:
            if await _lasts(address):
                return False
            attempts -= 1
            await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            attempts -= ATTEMPTS_PER_SILENCE
        except ConnectionResetError:
            attempts -= 1
        except OSError as error:
            return _is_refusal(error) and not has_returned()
    return False


async def _lasts(address: Address) -> bool:
    """Connects, and says whether the connection is still there after a while."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        transport, probe = await loop.create_connection(_Probe, address.host, address.port)
    try:
        async with asyncio.timeout(STAYS_S):
            await probe.ended.wait()
    except TimeoutError:
        return True
    finally:
        transport.abort()
    return False


class _Probe(asyncio.Protocol):
    """Says nothing, and notices the end."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


def _is_refusal(error: OSError) -> bool:
    if error.errno == errno.ECONNREFUSED:
        return True
    # A name with several addresses: asyncio sums up what each of them answered.
    text = str(error)
    refusals = text.count(f"[Errno {errno.ECONNREFUSED}]")
    return refusals > 0 and refusals == text.count("[Errno ")
