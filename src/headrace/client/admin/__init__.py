"""Requests that describe and change topics, groups, users and the cluster."""
