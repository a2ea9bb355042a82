"""The workloads, each measured in the same way on both contestants."""
