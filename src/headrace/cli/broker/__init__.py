"""`headrace up` and `headrace broker start`."""
