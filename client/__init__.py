"""Python clients over the wire, sync and asyncio."""
