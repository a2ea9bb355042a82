"""Shared support for tests with a real broker: processes, the raw wire, batches, waiting."""
