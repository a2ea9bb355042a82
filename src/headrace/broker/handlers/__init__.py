"""One file per API key: decode the request, call the domain, encode the response."""
