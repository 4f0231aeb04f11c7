"""The proofs that logins wait for, on threads while everything else goes on, and who is told how they went.

Passwords are checked one after the other: that takes a processor. Whoever else is to be asked takes time and nothing
else, so that several are asked at once. Long bodies are put together here, too: beside both, as they are short work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from forebay.broker.joining import Joining
from forebay.directory.logins.authorizer import Proof
from forebay.directory.logins.login import Auth
from forebay.server.system.disk_work import Worker

ASKED_MAX: Final = 16  # questions to other servers at a time


class Logins:
    """The proofs that wait for a thread.

    concluded  takes each once its answer is there, and each body once it is put together
    """

    def __init__(
        self, auth: Auth, concluded: Callable[[Proof | Joining], None], hand_back: Callable[..., object]
    ) -> None:
        self.auth = auth
        self.concluded = concluded
        self.hand_back = hand_back
        self.worker = Worker("login", self.done, hand_back)
        self.copier = Worker("copy", self.copied, hand_back)
        self.waiting: deque[Proof] = deque()
        self.running: Proof | None = None
        self.questions: deque[Proof] = deque()  # to other servers, not yet asked
        self.askers: list[Worker] = []
        self.idle: list[Worker] = []
        self.asking: dict[Proof, Worker] = {}

    def take(self, tasks: Sequence[Proof | Joining]) -> None:
        """Sort the tasks of sessions into the queues of the threads, to run each."""
        for task in tasks:
            if isinstance(task, Joining):
                self.copier.put(task)
            elif task.waits:
                self.questions.append(task)
            else:
                self.waiting.append(task)
        self.ask_on()
        self.go_on()

    def go_on(self) -> None:
        """Hand the password thread its next proof. A proof whose answer is known needs no thread."""
        while self.waiting and self.running is None:
            proof = self.waiting.popleft()
            if self.auth.is_at_hand(proof):
                self.concluded(proof)
            else:
                self.running = proof
                self.worker.put(proof)

    def ask_on(self) -> None:
        """Put queued questions to other servers, as many at a time as there may be."""
        while self.questions:
            if not self.idle:
                if len(self.askers) >= ASKED_MAX:
                    return
                self.askers.append(Worker(f"ask-{len(self.askers)}", self.asked, self.hand_back))
                self.idle.append(self.askers[-1])
            asker = self.idle.pop()
            proof = self.questions.popleft()
            self.asking[proof] = asker
            asker.put(proof)

    def done(self, proof: Proof, error: BaseException | None) -> None:
        """Conclude a proof that has run, and go on with the next. A proof that ended with an error proves nothing."""
        assert error is None or not proof.right
        self.running = None
        self.concluded(proof)
        self.go_on()

    def copied(self, joining: Joining, error: BaseException | None) -> None:
        """Pass on a body that has been joined. If there was no memory for it, the connection ends."""
        assert error is None or not joining.is_whole
        self.concluded(joining)

    def asked(self, proof: Proof, error: BaseException | None) -> None:
        """Conclude a proof that another server has answered, or failed to answer."""
        assert error is None or not proof.right
        self.idle.append(self.asking.pop(proof))
        self.concluded(proof)
        self.ask_on()

    def stop(self) -> None:
        """Wait for the running proof, and end the threads. Nobody waits for the answers of other servers."""
        self.worker.stop()
        self.copier.stop()
        for asker in self.askers:
            asker.work.put(None)
