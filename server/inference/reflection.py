"""What reflection shows where messages stand in two pools."""

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf import descriptor_pool  # type: ignore[import-untyped]  # has no types

from foretell.protos.inference.pool import POOL

Found = TypeVar("Found")


class BothPools:
    """Looks in the pool of the Open Inference Protocol first, then in protobuf's own.

    In that order: another copy of the protocol may stand in protobuf's. The methods are those of
    `google.protobuf.descriptor_pool.DescriptorPool` that reflection uses, which finds out in the
    same way: by a KeyError.
    """

    def __init__(self) -> None:
        self._pools = (POOL, descriptor_pool.Default())

    def FindFileByName(self, file_name: str) -> Any:  # noqa: N802  # protobuf's names
        """Find a file."""
        return self._find(lambda pool: pool.FindFileByName(file_name))

    def FindFileContainingSymbol(self, symbol: str) -> Any:  # noqa: N802
        """Find the file of a service, message or enum."""
        return self._find(lambda pool: pool.FindFileContainingSymbol(symbol))

    def FindMessageTypeByName(self, full_name: str) -> Any:  # noqa: N802
        """Find a message."""
        return self._find(lambda pool: pool.FindMessageTypeByName(full_name))

    def FindExtensionByNumber(self, message_descriptor: Any, number: int) -> Any:  # noqa: N802
        """Find an extension."""
        return self._find(lambda pool: pool.FindExtensionByNumber(message_descriptor, number))

    def FindAllExtensions(self, message_descriptor: Any) -> Any:  # noqa: N802
        """Find all extensions of a message; ours has none."""
        return self._pools[1].FindAllExtensions(message_descriptor)

    def _find(self, look: Callable[[Any], Found]) -> Found:
        first, second = self._pools
        try:
            return look(first)
        except KeyError:
            return look(second)
