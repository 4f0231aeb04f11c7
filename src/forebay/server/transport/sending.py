"""Sending parts of files to sockets, past the event loop: the octets go from the disk's cache to the network uncopied.

One thread serves all connections. Each socket is non-blocking and is written a chunk at a time when it takes one, so a
client that does not read costs nothing but its place in the list, and a disk that is slow holds up nobody but other
such readers. The transport must have nothing to send meanwhile: whoever hands a connection over sees to that.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from forebay.session.session import FilePart

CHUNK_OCTETS: Final = 2 << 20  # for one client before the next one's turn


class Sending:
    """The octets that one client is to be sent, then a part of a file.

    own      a second handle of its socket; the transport's may be closed meanwhile
    prefix   what goes before the file's octets
    done     called on the loop at the end, with whether everything was sent
    """

    def __init__(self, own: socket.socket, prefix: bytes, part: FilePart, done: Callable[[bool], None]) -> None:
        self.own = own
        self.prefix = prefix
        self.part = part
        self.done = done

    def step(self) -> bool:
        """Send up to one chunk; return whether that was the last.

        Raises OSError if the client is gone or the file is too short.
        """
        part = self.part
        try:
            if self.prefix:
                self.prefix = self.prefix[self.own.send(self.prefix, socket.MSG_MORE) :]
                return False
            sent = os.sendfile(self.own.fileno(), part.handle, part.position, min(part.octets, CHUNK_OCTETS))
        except BlockingIOError:
            return False
        if sent == 0:
            raise OSError(f"the file ends at octet {part.position}, {part.octets} before the end of what is sent")
        part.position += sent
        part.octets -= sent
        return part.octets == 0

    def close(self) -> None:
        self.own.close()
        os.close(self.part.handle)


class FileSender:
    """The thread, and what it is sending.

    hand_back  calls a function on the loop: `loop.call_soon_threadsafe`
    """

    def __init__(self, hand_back: Callable[..., object]) -> None:
        self.hand_back = hand_back
        self.orders: deque[tuple[bool, Sending]] = deque()  # begin or give up
        self.wake = os.eventfd(0, os.EFD_CLOEXEC)
        self.stopping = False
        self.thread = threading.Thread(target=self.run, name="forebay-sending", daemon=True)
        self.thread.start()

    def begin(
        self, transport_socket: socket.socket, prefix: bytes, part: FilePart, done: Callable[[bool], None]
    ) -> Sending:
        """Send `prefix` and a part of a file, whose handle is closed at the end."""
        own = socket.socket(fileno=os.dup(transport_socket.fileno()))
        own.setblocking(False)
        sending = Sending(own, prefix, part, done)
        self.order(True, sending)
        return sending

    def give_up(self, sending: Sending) -> None:
        """Stop sending to a client that is gone or is to go. `done` is still called, unless it already was."""
        self.order(False, sending)

    def order(self, begin: bool, sending: Sending) -> None:
        self.orders.append((begin, sending))
        os.eventfd_write(self.wake, 1)

    def stop(self) -> None:
        """Give up everything being sent, and end the thread."""
        self.stopping = True
        os.eventfd_write(self.wake, 1)
        self.thread.join()

    # ---- on the thread

    def run(self) -> None:
        sendings: dict[int, Sending] = {}
        with select.epoll() as poll:
            poll.register(self.wake, select.EPOLLIN)
            while not self.stopping:
                for handle, _ in poll.poll():
                    if handle == self.wake:
                        os.eventfd_read(self.wake)
                        self.take_orders(poll, sendings)
                    elif handle in sendings:
                        self.advance(poll, sendings, sendings[handle])
            for sending in list(sendings.values()):
                self.end(poll, sendings, sending, False)
        for begin, sending in self.orders:
            if begin:
                sending.close()
        os.close(self.wake)

    def take_orders(self, poll: select.epoll, sendings: dict[int, Sending]) -> None:
        while self.orders:
            begin, sending = self.orders.popleft()
            if begin:
                sendings[sending.own.fileno()] = sending
                poll.register(sending.own.fileno(), select.EPOLLOUT)
                self.advance(poll, sendings, sending)
            elif sendings.get(sending.own.fileno()) is sending:
                self.end(poll, sendings, sending, False)

    def advance(self, poll: select.epoll, sendings: dict[int, Sending], sending: Sending) -> None:
        try:
            is_last = sending.step()
        except OSError:
            self.end(poll, sendings, sending, False)
            return
        if is_last:
            self.end(poll, sendings, sending, True)

    def end(self, poll: select.epoll, sendings: dict[int, Sending], sending: Sending, whole: bool) -> None:
        poll.unregister(sending.own.fileno())
        del sendings[sending.own.fileno()]
        sending.close()
        self.hand_back(sending.done, whole)
