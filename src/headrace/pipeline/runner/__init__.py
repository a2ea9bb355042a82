"""Runs flows batch by batch. Each batch is planned from the position in the sink."""
