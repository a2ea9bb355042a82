"""Spans of Produce and Fetch requests for records that carry a `traceparent` header."""
