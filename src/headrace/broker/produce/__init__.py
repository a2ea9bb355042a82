"""Produce: checks, record validation, delayed produces, responses."""
