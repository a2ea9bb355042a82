"""`headrace topic` and `headrace kafka-topics`."""
