"""The client goes away: at every stage everything for it ends, at once, and nothing is blamed on the origin."""
import time

import pytest

from harness import Blackhole, at_most, hold, raw, reply, until


def assert_cancelled(p, n=1, stage="waiting_head"):
    p.wait_metric("evenkeel_cancelled_total", n)
    assert p.metric("evenkeel_requests_total", code="cancelled") == n
    assert p.access(n)["verdict"] == "cancelled"
    assert p.wait_log("cancelled", n)["stage"] == stage


def leave(client, how):
    if how == "reset":
        client.reset()
    else:
        client.close()


HOW = pytest.mark.parametrize("how", ["reset", "fin"])


# case L1, in its stages
@HOW
def test_while_waiting_for_headers(proxy, origin, how):
    u = origin(hold())
    p = proxy()
    with p.no_leak():
        c = p.client()
        c.request("GET", u.url())
        u.wait(n=1)
        left = time.monotonic()
        leave(c, how)
        assert u.connections[0].wait_ended(1) - left < at_most(0.05, left)
    assert_cancelled(p)
    time.sleep(0.1)
    assert u.n == 1
    assert p.metric("evenkeel_attempts_total", outcome="reset") == 0


@HOW
def test_in_the_queue(proxy, origin, how):
    u = origin(hold())
    p = proxy(defaults={"pool": {"max_connections": 1}, "timeouts": {"pool_wait": "5s"}})
    with p.client() as first:
        first.request("GET", u.url("/first"))
        u.wait(n=1)
        with p.no_leak():
            c = p.client()
            c.request("GET", u.url("/second"))
            p.wait_metric("evenkeel_pool_pending", 1)
            leave(c, how)
            p.wait_metric("evenkeel_pool_pending", 0, timeout=0.3)
        assert_cancelled(p, stage="queued")
    assert u.n == 1


@HOW
def test_while_connecting(proxy, makers, how):
    hole = makers.add(Blackhole())
    p = proxy(defaults={"timeouts": {"connect": "5s"}})
    with p.no_leak():
        c = p.client()
        c.request("GET", hole.url())
        p.wait_metric("evenkeel_pool_connections", 1, state="connecting")
        leave(c, how)
        p.wait_metric("evenkeel_pool_connections", 0, state="connecting", timeout=0.4)
    assert_cancelled(p, stage="connecting")


@HOW
def test_while_resolving(proxy, dns, how):
    d = dns({"slow.test": "silent"})
    p = proxy(dns={**d.policy, "timeout": "800ms"})
    with p.no_leak(timeout=3):  # the question to the name server may live on, as long as it would have
        c = p.client()
        c.request("GET", "http://slow.test/")
        until(lambda: d.queries, 2, "a query")
        leave(c, how)
        p.wait_metric("evenkeel_cancelled_total", 1, timeout=0.4)
    assert_cancelled(p, stage="connecting")


@HOW
def test_in_the_middle_of_the_body(proxy, origin, how):
    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            x.send(b"400\r\n" + b"a" * 1024 + b"\r\n")
            x.sleep(0.005)
    u = origin(step)
    p = proxy()
    with p.no_leak():
        c = p.client()
        c.request("GET", u.url()).head()
        c.fill()
        leave(c, how)
        p.wait_metric("evenkeel_cancelled_total", 1, timeout=0.5)
    assert u.n == 1 and p.access()["verdict"] == "cancelled"


@HOW
def test_while_a_body_is_held(proxy, origin, how):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", then="hold"))
    p = proxy()
    with p.no_leak():
        c = p.client()
        c.request("GET", u.url())
        u.wait(n=1)
        time.sleep(0.05)
        left = time.monotonic()
        leave(c, how)
        assert u.connections[0].wait_ended(1) - left < at_most(0.05, left)
    assert_cancelled(p, stage="reading_body")


@HOW
def test_in_backoff(proxy, origin, how):
    u = origin(reply(503), reply(200))
    p = proxy(defaults={"retry": {"backoff": {"base": "400ms", "max": "400ms"}}})
    with p.no_leak():
        c = p.client()
        c.request("GET", u.url())
        p.wait_log("retry")
        leave(c, how)
        p.wait_metric("evenkeel_cancelled_total", 1, timeout=0.3)
    assert_cancelled(p, stage="backoff")
    time.sleep(0.5)
    assert u.n == 1, "no further attempt"


@HOW
def test_while_uploading(proxy, origin, how):
    u = origin(reply(200))
    p = proxy(limits={"request_buffer": 0})
    with p.no_leak():
        c = p.client()
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + "x" * 200000)
        u.wait(n=1)
        leave(c, how)
        u.connections[0].wait_ended(0.5)
        p.wait_metric("evenkeel_cancelled_total", 1)
    assert not u.requests[0].complete


def test_before_the_request_is_complete(proxy):
    p = proxy()
    with p.no_leak():
        for part in ("", "G", "GET http://127.0.0.1/ HTTP/1.1\r\n", "GET http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n"):
            for how in ("reset", "fin"):
                c = p.client()
                c.send(part)
                time.sleep(0.01)
                leave(c, how)
    assert p.metric("evenkeel_requests_total", code="cancelled") == 0


def test_while_hedging(proxy, origin):
    u = origin(hold())
    p = proxy(defaults={"hedge": {"after": "50ms", "max": 1}})
    with p.no_leak():
        c = p.client()
        c.request("GET", u.url())
        u.wait(n=2)
        c.reset()
        for connection in u.connections:
            connection.wait_ended(0.5)
    assert_cancelled(p)


def test_half_closed_client_is_gone_by_default(proxy, origin):
    u = origin(hold())
    p = proxy()
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        c.shut()
        u.connections[0].wait_ended(0.5)
    assert_cancelled(p)


# case I5's relative for plain requests
def test_half_closed_client_may_be_served(proxy, origin):
    u = origin(lambda x: (x.sleep(0.2), x.reply(200, b"still here")))
    p = proxy(client={"half_close": "serve"})
    with p.client() as c:
        c.request("GET", u.url()).shut()
        assert c.response().body == b"still here"
        assert c.closed()


# case G7
def test_abandoned_connection_is_not_reused(proxy, origin):
    def step(x):
        if x.request.target == "/small":
            x.reply(200, b"small")
            return
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")  # more than all buffers on the way hold
        for _ in range(1526):
            x.send(b"a" * 65536)
    u = origin(step)
    p = proxy()
    c = p.client()
    c.request("GET", u.url("/big")).head()
    c.reset()
    p.wait_metric("evenkeel_cancelled_total", 1)
    assert p.get(u.url("/small")).body == b"small"
    assert u.k == 2


def test_pipelining_client_that_leaves(proxy, origin):
    u = origin(hold())
    p = proxy()
    with p.no_leak():
        c = p.client()
        for i in range(5):
            c.request("GET", u.url(f"/{i}"))
        u.wait(n=1)
        c.reset()
        u.connections[0].wait_ended(0.5)
    time.sleep(0.1)
    assert u.n == 1


def test_many_leave_at_once(proxy, origin):
    u = origin(hold())
    p = proxy(defaults={"pool": {"max_connections": 20}, "timeouts": {"pool_wait": "10s"}})
    with p.no_leak():
        clients = [p.client() for _ in range(60)]
        for c in clients:
            c.request("GET", u.url())
        u.wait(n=20)
        p.wait_metric("evenkeel_pool_pending", 40)
        for i, c in enumerate(clients):
            leave(c, "reset" if i % 2 else "fin")
        p.wait_metric("evenkeel_cancelled_total", 60)
    assert u.n <= 60 and p.metric("evenkeel_in_flight") == 0


def test_cancelled_requests_do_not_open_the_breaker(proxy, origin):
    u = origin(lambda x: x.hold() if x.request.target == "/hold" else x.reply(200, b"ok"))
    p = proxy(defaults={"breaker": {"consecutive": 2, "min_requests": 2, "failure_ratio": "10%", "window": "10s", "open_for": "5s"}})
    for i in range(4):
        c = p.client()
        c.request("GET", u.url("/hold"))
        u.wait(n=i + 1)
        c.reset()
    p.wait_metric("evenkeel_cancelled_total", 4)
    assert p.get(u.url("/x")).body == b"ok" and p.metric("evenkeel_breaker_state") == 0
