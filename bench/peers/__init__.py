"""The brokers that are compared. A peer is one broker process with its own data directory."""
