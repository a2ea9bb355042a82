"""`headrace group` and `headrace share`."""
