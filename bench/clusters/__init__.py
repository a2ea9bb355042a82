"""Clusters of three brokers side by side: failover, replicated throughput, scale, catching up."""
