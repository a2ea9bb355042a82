"""Detects at once that another broker's process has died.

When a process dies, its system closes its connections and refuses new ones. Both together mean a
crash: the controller fences the broker before its session ends. Silence proves nothing: a paused
machine or a stalled network looks the same, so only the end of the session decides. A false alarm
costs a needless election but no record: commits are fenced, and a live broker registers again.
"""

import asyncio
import errno
from collections.abc import Callable
from typing import Final

from headrace.client.network.connection import Address

CONNECT_TIMEOUT_S: Final = 0.1
"""The kernel drops packets for a listening socket that is being closed, and TCP would retry only
after a second."""
SILENCE_S: Final = 1.0
"""A peer that neither accepts nor refuses within this time counts as silent."""
STAYS_S: Final = 1.0
"""A connection that lasts this long was accepted by a live process."""
PAUSE_S: Final = 0.01
MAX_ATTEMPTS: Final = 20
ATTEMPTS_PER_SILENCE: Final = round(MAX_ATTEMPTS * CONNECT_TIMEOUT_S / SILENCE_S)


async def has_crashed(address: Address, has_returned: Callable[[], bool]) -> bool:
    """Whether no process listens at the address any more, after a connection to it has ended.

    A dying process may still accept for an instant; such a connection ends soon, and the probe is
    repeated. `has_returned` returns whether the broker has sent anything meanwhile.
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
    """Connects; returns whether the connection still exists after a while."""
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
    """Sends nothing and notices the end of the connection."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


def _is_refusal(error: OSError) -> bool:
    if error.errno == errno.ECONNREFUSED:
        return True
    # A name with several addresses: asyncio combines the errors of all of them.
    text = str(error)
    refusals = text.count(f"[Errno {errno.ECONNREFUSED}]")
    return refusals > 0 and refusals == text.count("[Errno ")
