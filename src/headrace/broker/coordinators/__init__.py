"""Runs coordinator shards: loads them, appends their records and sends their answers."""
