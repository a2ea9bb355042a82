"""Traces that records carry in `traceparent` headers, and spans exported by OTLP."""
