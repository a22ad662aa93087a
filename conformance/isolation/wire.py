"""Messages between processes: JSON objects, each behind its length, over a descriptor of their own.

Nothing of the kit is ever told over stdout, which belongs to the platform.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any, Final, cast

Message = dict[str, Any]

_HEAD: Final = struct.Struct("!Q")
_LARGEST: Final = 64 * 1024 * 1024
_CHUNK: Final = 65536
# Kept at the start: platforms replace functions of `os`.
_write = os.write
_read = os.read


class Closed(Exception):
    """The other side closed the channel, or what it wrote is no message."""


def encode(message: Message) -> bytes:
    """Turn a message into the bytes that go over the wire; a value JSON lacks becomes its text."""
    body = json.dumps(message, default=_text).encode("utf-8", "backslashreplace")
    return _HEAD.pack(len(body)) + body


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte.

    Raises:
        OSError: the descriptor is closed or broken.
    """
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


class Inbox:
    """Collects bytes and gives back whole messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Add bytes; return the messages that are now whole.

        Raises:
            Closed: the bytes are no message of ours.
        """
        self._data += data
        whole: list[Message] = []
        while len(self._data) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._data)
            if length > _LARGEST:
                raise Closed(f"a message of {length} bytes was announced")
            end = _HEAD.size + length
            if len(self._data) < end:
                break
            body = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            try:
                message = json.loads(body)
            except ValueError as error:
                raise Closed(f"what was written is no message: {error}") from error
            if not isinstance(message, dict):
                raise Closed("what was written is no message")
            whole.append(cast("Message", message))
        return whole


class Channel:
    """One end of a two-way channel.

    Args:
        descriptor: of a connected stream socket.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._inbox = Inbox()
        self._ready: list[Message] = []

    def send(self, message: Message) -> None:
        """Write a message.

        Raises:
            Closed: the other side is gone.
        """
        try:
            write_all(self.descriptor, encode(message))
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self, deadline: float | None = None) -> Message:
        """Wait for a message.

        Args:
            deadline: a moment of `time.monotonic`; None waits for ever.

        Raises:
            TimeoutError: the deadline passed.
            Closed: the other side is gone.
        """
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while not self._ready:
            left = None if deadline is None else (deadline - time.monotonic()) * 1000
            if left is not None and left <= 0:
                raise TimeoutError
            if not poll.poll(left):
                continue
            try:
                data = _read(self.descriptor, _CHUNK)
            except OSError as error:
                raise Closed(str(error)) from error
            if not data:
                raise Closed("the other side closed the channel")
            self._ready += self._inbox.feed(data)
        return self._ready.pop(0)

    def close(self) -> None:
        """Close this end."""
        os.close(self.descriptor)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose text raises {type(error).__name__}>"
