"""The error of a flow's transform."""


class TransformError(ValueError):
    """A step cannot be run. The message says which one, why, and what to change."""
