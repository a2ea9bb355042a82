"""Errors of the controller."""

from typing import TypeVar

T = TypeVar("T")


class NotController(Exception):
    """This broker is not the active controller, so the request was not carried out.

    Exception: if the broker lost the role during the commit, the store may contain the change.
    """


def require_active(controller: T | None) -> T:
    """The active controller; raises `NotController` if this broker does not have one."""
    if controller is None:
        raise NotController
    return controller
