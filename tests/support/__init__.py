"""What the tests with a real broker share: processes, the raw wire, batches, waiting."""
