"""TLS and SASL at the client."""
