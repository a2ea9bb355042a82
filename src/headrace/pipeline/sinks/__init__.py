"""Where a pipeline's rows go: tables and topics, each with a commit that knows its batch."""
