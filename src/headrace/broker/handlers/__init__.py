"""One file an API: translate the request, call the domain, translate the answer."""
