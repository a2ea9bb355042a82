"""The raw wire protocol: a blocking connection, batches, minimal requests."""
