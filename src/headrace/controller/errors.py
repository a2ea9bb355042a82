"""Errors of the controller."""


class NotController(Exception):
    """This broker is not the active controller: the request was not carried out, as a rule.

    If the broker lost the role while the commit was under way, the store may still hold the change.
    """
