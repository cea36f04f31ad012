"""Hostile timing and odd answers: what an exchange was waiting for must not come back after it was answered."""
import socket
import time

import pytest
from harness import Client, delay, reply, rst


def narrow(address, room=4096):
    """A client whose kernel takes little for it."""
    client = Client.__new__(Client)
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    client.socket.settimeout(20)
    client.socket.connect(address)
    client.buffer, client.eof = b"", None
    return client


def test_expect_continue_survives_a_retry(proxy, origin):
    """The first origin answered without the body, so the client was not told to go on; the second one wants it."""
    seen = []

    def serve(conn):
        request = conn.read_head()
        if request is None:
            return
        seen.append(request.header("Expect"))
        if len(seen) == 1:
            conn.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            conn.close()
        conn.send("HTTP/1.1 100 Continue\r\n\r\n")
        conn.read_body(request)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    u = origin(on_connection=serve)
    with proxy().client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        began = time.monotonic()
        assert c.head().status == 100
        assert time.monotonic() - began < 2
        c.send("hello")
        response = c.response("PUT")
        assert (response.status, response.body, response.attempts) == (200, b"hello", 2)
    assert seen == ["100-continue", "100-continue"]


def test_expect_continue_survives_a_retry_of_a_silent_origin(proxy, origin):
    """Neither attempt sends 100: the proxy says it by itself, also beside the second one."""
    seen = []

    def serve(conn):
        request = conn.read_head()
        if request is None:
            return
        seen.append(request)
        if len(seen) == 1:
            conn.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            conn.close()
        conn.read_body(request)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    u = origin(on_connection=serve)
    with proxy().client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert c.head().status == 100
        c.send("hello")
        response = c.response("PUT")
        assert (response.status, response.body) == (200, b"hello") and response.interim == []


def test_a_bad_body_beside_a_refusal_is_answered_once(proxy, origin):
    """The breaker's refusal is told from the loop; the body's fault came before it and was the answer."""
    u = origin(rst())
    p = proxy(defaults={"retry": {"max_attempts": 1}, "breaker": {"consecutive": 1, "open_for": "5s"}})
    assert p.get(u.url()).status == 502
    with p.client() as c:
        c.send(f"POST {u.url()} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert c.response("POST").status == 400
        assert c.closed() and c.eof == "eof"
    assert p.metric("evenkeel_requests_total", code="400") == 1
    assert p.metric("evenkeel_requests_total", code="aborted") == 0


@pytest.mark.parametrize("status", [600, 700, 999])
def test_a_status_that_http_does_not_know(proxy, origin, status):
    u = origin(reply(status, b"odd"))
    p = proxy()
    response = p.get(u.url())
    assert (response.status, response.body) == (status, b"odd")
    p.access(1)
    assert p.metric("evenkeel_requests_total", code=str(status)) == 1
    attempts = {tuple(sorted(labels)): value for (name, labels), value in p.metrics().items()
                if name == "evenkeel_attempts_total" and value > 0}
    assert [dict(labels)["outcome"] for labels in attempts] == ["5xx"]


@pytest.mark.parametrize("size", [3 << 20, 6 << 20, 10 << 20])
def test_half_closed_tunnel_with_a_slow_reader_gets_everything(proxy, origin, size):
    """Both ends of the origin's connection are over long before the client has read what came over it."""
    data = bytes(range(256)) * (size // 256)

    def serve(conn):
        while conn.fill():
            pass
        conn.send(data)
        conn.half_close()
        conn.sleep(10)

    u = origin(on_connection=serve)
    c = narrow(proxy(egress={"connect_ports": "any"}).address)
    c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert c.head().status == 200
    c.shut()
    time.sleep(1)
    got = bytearray(c.buffer)
    while piece := c.socket.recv(262144):
        got += piece
    assert got == data
    c.close()


HEDGING = {"hedge": {"after": "30ms", "max": 1}, "retry": {"backoff": {"base": "5ms", "jitter": "none"}}}


def test_a_hedge_keeps_to_the_rate(proxy, origin):
    """One request a second: a hedge 30 ms after the first attempt would be the second one."""
    u = origin(delay(0.3, reply(200, b"slow")), reply(200, b"hedge"))
    p = proxy(defaults={**HEDGING, "rate_limit": {"per_second": 1, "burst": 1}})
    response = p.get(u.url())
    assert (response.body, response.attempts, u.n) == (b"slow", 1, 1)


def test_a_hedge_goes_while_the_rate_has_room(proxy, origin):
    u = origin(delay(0.3, reply(200, b"slow")), reply(200, b"hedge"), reply(200, b"third"))
    p = proxy(defaults={**HEDGING, "rate_limit": {"per_second": 1, "burst": 2}, "timeouts": {"pool_wait": "50ms"}})
    assert p.get(u.url()).body == b"hedge"
    assert p.get(u.url()).status == 503, "the hedge took the second place"
    assert u.n == 2


def test_a_hedge_that_took_over_and_failed_is_counted(proxy, origin):
    u = origin(lambda x: (x.sleep(0.06), x.reset()), lambda x: (x.sleep(0.1), x.reset()), reply(200, b"third"))
    p = proxy(defaults=HEDGING)
    response = p.get(u.url())
    assert (response.body, response.attempts) == (b"third", 3)
    assert p.metric("evenkeel_hedges_total", won="false") == 1
    assert p.metric("evenkeel_hedges_total", won="true") == 0
