"""Tells systemd how far the process is (sd_notify), so that a unit may be `Type=notify`."""

import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def tell_systemd(state: str) -> None:
    """Sends `state`, e.g. READY=1, where somebody listens; whoever does not is no error."""
    path = os.environ.get(VARIABLE, "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path  # @ is the abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            sender.sendall(state.encode())
    except OSError:
        return
