"""The small async client that brokers, tools and pipelines share; not a public Kafka client."""
