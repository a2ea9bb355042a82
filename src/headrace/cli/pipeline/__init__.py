"""`headrace pipeline` and `headrace demo`."""
