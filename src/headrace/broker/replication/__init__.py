"""Replication between brokers: follower sessions, replica fetchers, ISR changes, throttles."""
