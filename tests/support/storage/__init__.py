"""Logs and disks for tests."""
