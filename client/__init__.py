"""Python clients over the wire, sync and asyncio."""

from foretell.client.aio import AsyncClient
from foretell.client.client import Client
from foretell.client.credentials import Credentials
from foretell.client.errors import RemoteError
from foretell.client.models import ModelInfo, ModelStatus

__all__ = ["AsyncClient", "Client", "Credentials", "ModelInfo", "ModelStatus", "RemoteError"]
