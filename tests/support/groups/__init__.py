"""Coordinator shards and group members, driven by hand."""
