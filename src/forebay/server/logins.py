"""Passwords that take long to check: one after the other on a thread, while everything else goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from forebay.broker.auth import Auth, Proof
from forebay.server.disk import Worker


class Logins:
    """The proofs that wait for the thread.

    concluded  takes each once its answer is there
    """

    def __init__(self, auth: Auth, concluded: Callable[[Proof], None], hand_back: Callable[..., object]) -> None:
        self.auth = auth
        self.concluded = concluded
        self.worker = Worker("login", self.done, hand_back)
        self.waiting: deque[Proof] = deque()
        self.running: Proof | None = None

    def take(self) -> None:
        """Begin what sessions have asked for."""
        proofs, self.auth.proofs = self.auth.proofs, []
        self.waiting.extend(proofs)
        self.go_on()

    def go_on(self) -> None:
        """Give the thread the next; the same login many times over costs one."""
        while self.waiting and self.running is None:
            proof = self.waiting.popleft()
            if self.auth.is_at_hand(proof):
                self.concluded(proof)
            else:
                self.running = proof
                self.worker.work.put(proof)

    def done(self, proof: Proof, error: BaseException | None) -> None:
        """A proof has run; one that ended with an error proves nothing."""
        assert error is None or not proof.right
        self.running = None
        self.concluded(proof)
        self.go_on()

    def stop(self) -> None:
        """Wait for the one that runs, and end."""
        self.worker.stop()
