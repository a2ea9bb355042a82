"""Cluster metadata: the image that every broker reads, its records, its stores, and all
settings."""
