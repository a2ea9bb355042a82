"""One segment of a log: its batches and its indexes."""
