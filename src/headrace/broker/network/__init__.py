"""Sockets, frames, connections and dispatch: from bytes to handlers and back."""
