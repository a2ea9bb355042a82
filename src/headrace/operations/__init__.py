"""What administrators do with a cluster: plans and findings that the command line and the console
share. They use the client, so they work with any Kafka."""
