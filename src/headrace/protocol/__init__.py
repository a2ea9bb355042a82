"""Kafka's wire protocol: messages, headers, API table and error codes, with no I/O.

A message is declared once for all its versions and compiled per version on first use. For any
input, a reader returns a message or raises `MalformedMessage`, and never allocates more than the
received bytes justify.
"""
