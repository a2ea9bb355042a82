"""The workloads, each measured alike on both contestants."""
