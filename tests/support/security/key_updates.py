"""Key updates of TLS 1.3, which Python's ssl module cannot send."""

import ctypes
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

NOT_REQUESTED, REQUESTED = 0, 1
SSL_POINTER_AT = 24
"""In CPython's object of an SSLSocket: after its reference count, its type and its socket."""


def key_updates(client: ssl.SSLSocket, *, asks_for_answers: bool = False) -> Callable[[int], int]:
    """Sends this many key updates unless the connection ends; returns how many were sent."""
    library = _openssl()
    address = id(client._sslobj) + SSL_POINTER_AT  # type: ignore[attr-defined]
    connection = ctypes.c_void_p.from_address(address)
    kind = REQUESTED if asks_for_answers else NOT_REQUESTED

    def send(number: int) -> int:
        for sent in range(number):
            if library.SSL_key_update(connection, kind) != 1:
                return sent
            if library.SSL_do_handshake(connection) != 1:
                return sent
        return number

    return send


def _openssl() -> ctypes.CDLL:
    """The library that Python itself has loaded."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    except FileNotFoundError:
        maps = []
    paths = {each for each in maps if "/libssl.so" in each}
    if len(paths) != 1:
        pytest.skip("Python does not share its OpenSSL")
    return ctypes.CDLL(paths.pop())
