"""Delegation tokens. Pure."""
