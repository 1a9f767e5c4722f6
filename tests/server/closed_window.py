"""A caller that asks and takes no answer: it speaks HTTP/2 itself, with a window of no bytes.

Any client may do so without a wrong byte: flow control lets it. What it takes are headers, which
know no window; so it can wait until the server has begun to answer.
"""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW = 4


class ClosedWindow:
    """A connection whose calls get no byte of an answer; close it to have them end.

    Args:
        address: HOST:PORT.
    """

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.incoming = self.socket.makefile("rb")
        self.num_calls = self.num_answers = 0
        self.socket.sendall(PREFACE)
        self._send(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.incoming.close()
        self.socket.close()

    def call(self, method, request):
        """Ask; `request` is a message of at most 16 KB."""
        stream = 2 * self.num_calls + 1
        self.num_calls += 1
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method,
            ":authority": "test",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        block = b"".join(_literal(name) + _literal(text, b"") for name, text in headers.items())
        self._send(HEADERS, END_HEADERS, stream, block)
        content = request.SerializeToString()
        self._send(DATA, END_STREAM, stream, struct.pack(">BI", 0, len(content)) + content)

    def wait_for_answers(self):
        """Wait until every call has the headers of an answer, whose body then waits for room."""
        while self.num_answers < self.num_calls:
            start = self.incoming.read(9)
            assert len(start) == 9, "the server hung up"
            size, kind, flags = int.from_bytes(start[:3]), start[3], start[4]
            self.incoming.read(size)
            self.num_answers += kind == HEADERS
            if kind == SETTINGS and not flags & ACK:
                self._send(SETTINGS, ACK, 0)

    def vanish(self):
        """Break off with a reset, as a machine does that is gone."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.__exit__()

    def _send(self, kind, flags, stream, content=b""):
        start = len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4)
        self.socket.sendall(start + content)


def _literal(text, prefix=b"\0"):
    """A text of a header as HPACK has it, not compressed; a name stands behind `prefix`."""
    assert len(text) < 127
    return prefix + bytes([len(text)]) + text.encode()
