"""Bytes behind an answer that nobody asked for: whoever waits for the connection must not get them as its own answer."""
import threading
import time

import pytest

SURPLUS = b"HTTP/1.1 200 OK\r\nX-Of: nobody\r\nContent-Length: 4\r\n\r\nevil"
SCRATCH = 128 * 1024  # what the proxy reads at once


def sizes():
    head = len(b"HTTP/1.1 200 OK\r\nX-Of: /0\r\nContent-Length: 131000\r\n\r\n")
    yield from (0, 10, 20000, 300000, 3000000)
    yield from (SCRATCH - head, 2 * SCRATCH - head)  # the answer ends where a read does


@pytest.mark.parametrize("size", sorted(set(sizes())))
def test_surplus_behind_an_answer(proxy, origin, size):
    """One connection and a queue for it: it would be handed on in the very moment in which the answer is complete."""
    def step(x):
        path = x.request.target
        surplus = SURPLUS if x.n == 1 else b""
        x.sleep(0.1 if x.n == 1 else 0)
        x.send(f"HTTP/1.1 200 OK\r\nX-Of: {path}\r\nContent-Length: {size}\r\n\r\n".encode() + b"a" * size + surplus)

    u = origin(step)
    p = proxy(defaults={"pool": {"max_connections": 1}, "retry": {"max_attempts": 1}})
    faults = []

    def ask(number):
        try:
            response = p.get(u.url(f"/{number}"))
            assert response.status == 200 and response.header("X-Of") == f"/{number}" and response.body == b"a" * size, response
        except Exception as fault:  # noqa: BLE001 - told by the test's own thread
            faults.append(fault)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert u.k == 2, "the first connection is used up, the second one serves both"
