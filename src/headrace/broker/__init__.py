"""The asyncio shell: listeners, connections, dispatch, delayed operations, handlers."""
