"""Notifies systemd of the process state (sd_notify), for units with `Type=notify`."""

import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def systemd_listens() -> bool:
    """Whether systemd waits for notifications of this process."""
    return os.environ.get(VARIABLE, "").startswith(("/", "@"))


def notify_systemd(state: str) -> None:
    """Sends `state`, such as READY=1. Does nothing if systemd does not listen."""
    if not systemd_listens():
        return
    path = os.environ[VARIABLE]
    address = "\0" + path[1:] if path.startswith("@") else path  # @ is the abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            sender.sendall(state.encode())
    except OSError:
        return
