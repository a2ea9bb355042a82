"""The sinks of pipelines: tables and topics. Each commit records its batch."""
