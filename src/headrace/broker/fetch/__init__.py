"""Fetch: sessions, reading, delayed fetches, replica selection."""
