"""The asyncio shell: listeners, connections, dispatch, delayed operations and one handler an API."""
