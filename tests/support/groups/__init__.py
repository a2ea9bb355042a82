"""Drivers for coordinator shards and group members."""
