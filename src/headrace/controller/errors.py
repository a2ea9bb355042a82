"""Errors of the controller."""

from typing import TypeVar

T = TypeVar("T")


class NotController(Exception):
    """This broker is not the active controller: the request was not carried out, as a rule.

    If the broker lost the role while the commit was under way, the store may still hold the change.
    """


def require_active(controller: T | None) -> T:
    """The active controller; raises `NotController` if this broker does not have one."""
    if controller is None:
        raise NotController
    return controller
