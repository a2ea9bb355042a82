"""Transactions in partitions: verification of writes, markers."""
