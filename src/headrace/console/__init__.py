"""The web console: an HTTP server of its own, a client of any Kafka cluster."""
