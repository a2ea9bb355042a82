"""The broker on asyncio: listeners, connections, dispatch, delayed operations, handlers."""
