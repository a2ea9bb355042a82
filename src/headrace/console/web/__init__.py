"""What every screen uses: pages, forms, sessions, security headers, server-sent events."""
