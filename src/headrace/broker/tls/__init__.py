"""TLS: contexts from key and trust stores, their reload, and the transport of connections."""
