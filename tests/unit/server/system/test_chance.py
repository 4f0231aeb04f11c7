"""The system's random octets."""

from forebay.server.system.chance import SystemRandom


def test_so_many_octets_as_asked_for_and_never_the_same() -> None:
    random = SystemRandom()
    assert [len(random.octets(count)) for count in (0, 1, 18, 1000)] == [0, 1, 18, 1000]
    assert len({random.octets(16) for _ in range(1000)}) == 1000
