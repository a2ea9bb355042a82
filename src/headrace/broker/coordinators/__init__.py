"""The shell that runs coordinator shards: loading, appending, answering."""
