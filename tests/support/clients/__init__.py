"""Other projects' Kafka clients."""
