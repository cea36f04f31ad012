"""Kept-alive connections to origins: which are used again, for whom, and never with somebody else's bytes on them."""
import signal
import threading
import time

import pytest

from harness import SLOWNESS, Client, free_port, problem, raw, reply, took, until

STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"


class Frozen:
    """The proxy stands still within the block: what is sent to it in there it finds all at once."""

    def __init__(self, p):
        self.p = p

    def __enter__(self):
        self.p.signal(signal.SIGSTOP)
        time.sleep(0.02)

    def __exit__(self, *_):
        time.sleep(0.02)
        self.p.signal(signal.SIGCONT)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
@pytest.mark.parametrize("first", ["request", "stray"])
@pytest.mark.parametrize("is_tls", [False, True], ids=["clear", "tls"])
def test_bytes_on_an_idle_connection_are_never_the_next_answer(proxy, origin, authority, method, first, is_tls):
    """Also when the proxy learns of them in the same moment as of the next request."""
    u = origin(lambda x: x.reply(200, b"%d" % x.k), tls=authority.server() if is_tls else None)
    tls = {"originate": "on", "ca_file": authority.ca} if is_tls else {}
    p = proxy(upstreams=[{"name": "u", "match": {"hosts": ["127.0.0.1"]}, "tls": tls}])
    with p.client() as c:
        assert c.get(u.url("/1")).body == b"1"
        time.sleep(0.03)
        with Frozen(p):
            def ask():
                c.request(method, u.url("/2"), body=None if method == "GET" else b"body")

            def strew():
                u.connections[0].socket.sendall(STRAY)
            for step in (ask, strew) if first == "request" else (strew, ask):
                step()
                time.sleep(0.01)
        r = c.response()
        assert (r.status, r.body, r.attempts) == (200, b"2", 1)
        assert c.get(u.url("/3")).body == b"2"
    assert u.k == 2


def test_end_of_an_idle_connection_seen_together_with_the_next_request(proxy, origin):
    u = origin(lambda x: x.reply(200, b"%d" % x.k))
    p = proxy()
    with p.client() as c:
        for method, k in (("GET", 1), ("POST", 2), ("DELETE", 3)):
            if u.connections:
                with Frozen(p):
                    c.request(method, u.url())
                    u.connections[-1].socket.shutdown(2)
            else:
                c.request(method, u.url())
            r = c.response(method)
            assert (r.status, r.body, r.attempts) == (200, b"%d" % k, 1), method
            time.sleep(0.02)
    assert u.k == 3 and u.n == 3


@pytest.mark.parametrize("tail,gap", [(STRAY, 0), (b"\r\n", 0), (b"x", 0), (b"\0" * 100, 0), (STRAY, 0.02), (b"\r", 0.02)])
@pytest.mark.parametrize("framing", ["length", "chunked", "204", "304", "head"])
def test_surplus_after_any_response(proxy, origin, tail, gap, framing):
    method = "HEAD" if framing == "head" else "GET"
    response = {"length": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "204": b"HTTP/1.1 204 No Content\r\n\r\n",
                "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", "head": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"}[framing]

    sent = threading.Event()

    def step(x):
        if gap:
            x.send(response)
            x.sleep(gap)
            x.send(tail)
            sent.set()
        else:
            x.send(response + tail)
    u = origin(step, reply(200, b"good"))
    with proxy().client() as c:
        c.request(method, u.url("/1")).response(method)
        if gap:
            assert sent.wait(5)
            time.sleep(0.03 * SLOWNESS)
        r = c.get(u.url("/2"))
        assert (r.status, r.body) == (200, b"good") and c.silent(0.02)
    assert u.k == 2


def test_second_status_line_is_no_body_and_no_answer(proxy, origin):
    two = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"
    u = origin(raw(two), raw(two), reply(200, b"end"))
    with proxy().client() as c:
        assert [c.get(u.url(f"/{i}")).body for i in range(3)] == [b"one", b"one", b"end"]
    assert u.k == 3


# --- whose connection it is

def test_a_connection_serves_its_own_origin_only(proxy, origin, authority):
    """Same address, same port, different name; same name, different port; with and without TLS: never shared."""
    def serve(x):
        x.reply(200, x.request.header("Host").encode())
    a, b = origin(serve), origin(serve)
    s = origin(serve, tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1", "localhost"]}, "tls": {"ca_file": authority.ca}}])
    with p.client() as c:
        for _ in range(2):
            for u, host, scheme in ((a, "127.0.0.1", "http"), (a, "localhost", "http"), (b, "127.0.0.1", "http"), (b, "localhost", "http"),
                                    (s, "127.0.0.1", "https"), (s, "localhost", "https")):
                r = c.get(f"{scheme}://{host}:{u.port}/", host="x")
                assert r.body == f"{host}:{u.port}".encode()
    assert (a.k, b.k, s.k) == (2, 2, 2)
    for u in (a, b, s):
        for connection in u.connections:
            assert len({q.header("Host") for q in u.requests if q.connection is connection}) == 1


def test_tls_identities_have_pools_of_their_own(proxy, origin, authority):
    """One origin, two entries: what one verified is not lent to the other."""
    u = origin(reply(200, b"x"), tls=authority.server())
    tls = {"originate": "on", "ca_file": authority.ca}
    p = proxy(upstreams=[{"name": "a", "match": {"hosts": ["localhost"]}, "port": u.port, "tls": tls, "listen": "127.0.0.1:0"},
                         {"name": "b", "match": {"hosts": ["localhost"], "ports": [81]}, "port": u.port, "tls": {**tls, "verify": "off"},
                          "listen": "127.0.0.1:0"}])
    for name in ("a", "b", "a", "b"):
        with Client(p.upstream_address(name)) as c:
            assert c.fetch("GET", "/", host="x").body == b"x"
    assert u.k == 2 and [q.connection.k for q in u.requests] == [1, 2, 1, 2]


def test_tunnel_connections_never_serve_requests(proxy, origin):
    u = origin(reply(200, b"x"))
    p = proxy(egress={"connect_ports": "any"})
    assert p.get(u.url("/1")).body == b"x"
    with p.client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("CONNECT").status == 200
        c.send(f"GET /in-tunnel HTTP/1.1\r\nHost: {u.authority}\r\n\r\n")
        assert c.response().body == b"x"
        assert p.get(u.url("/2")).body == b"x"
    assert [(q.target, q.connection.k) for q in u.requests] == [("/1", 1), ("/in-tunnel", 2), ("/2", 1)]


# --- how long

@pytest.mark.parametrize("value,usable", [("timeout=2", 0.6), ("max=5, timeout=2", 0.6)])
def test_announced_keep_alive_is_learned(proxy, origin, value, usable):
    u = origin(reply(200, headers=[("Keep-Alive", value)]))
    p = proxy()
    with p.client() as c:
        c.get(u.url())
        time.sleep(usable)
        c.get(u.url())
        assert u.k == 1, "well within what was announced"
        time.sleep(1.3)
        c.get(u.url())
        assert u.k == 2, "not in the last second of it, when the origin may be closing"
    until(lambda: p.metric("evenkeel_pool_connections", state="idle") == 0, 3)


def test_announced_zero_is_no_reuse(proxy, origin):
    u = origin(reply(200, headers=[("Keep-Alive", "timeout=0")]))
    with proxy().client() as c:
        c.get(u.url())
        c.get(u.url())
    assert u.k == 2


def test_announced_longer_than_the_policy_changes_nothing(proxy, origin):
    u = origin(reply(200, headers=[("Keep-Alive", "timeout=3600")]))
    p = proxy(defaults={"pool": {"idle_timeout": "150ms"}})
    with p.client() as c:
        c.get(u.url())
        u.connections[0].wait_ended(0.6)


@pytest.mark.parametrize("value", ["timeout=x", "timeout=-1", "timeout=", "", "timeout=99999999999999999999", "timeout"])
def test_unreadable_keep_alive_does_no_harm(proxy, origin, value):
    u = origin(reply(200, headers=[("Keep-Alive", value)]))
    with proxy().client() as c:
        for _ in range(3):
            assert c.get(u.url()).status == 200
    assert u.k in (1, 3)


def test_not_repeatable_request_avoids_a_connection_near_its_end(proxy, origin):
    u = origin(reply(200, headers=[("Keep-Alive", "timeout=3")]))
    with proxy().client() as c:
        c.get(u.url())
        time.sleep(1.6)  # past the half of it: fit for a GET, which may be repeated, not for a POST
        assert c.fetch("POST", u.url(), body=b"x").status == 200
        assert u.k == 2
        c.get(u.url())
    assert [q.connection.k for q in u.requests][:2] == [1, 2]


def test_not_repeatable_request_on_a_connection_closed_a_moment_ago(proxy, origin):
    def step(x):
        x.reply(200, b"%d" % x.k)
        if x.k == 1:
            x.close()
    u = origin(step)
    p = proxy()
    for _ in range(20):
        assert p.fetch("POST", u.url(), body=b"x").status == 200
        # What is closed while the request is on its way can't be known: this is of what was closed before.
        until(lambda: u.connections[0].socket.fileno() < 0)
    assert u.n == 20


def test_idle_connections_to_an_address_that_is_gone_are_closed(proxy, dns, origin):
    where = {"now": "127.0.0.2"}
    port = free_port()
    a, b = origin(reply(200, b"a"), host="127.0.0.2", port=port), origin(reply(200, b"b"), host="127.0.0.3", port=port)
    d = dns({"move.test": lambda kind, n: {"A": [where["now"]], "ttl": 1} if kind == "A" else {"ttl": 1}})
    p = proxy(dns=d.policy)
    url = f"http://move.test:{port}/"
    busy, slow = p.client(), p.client()
    assert [c.get(url).body for c in (busy, slow)] == [b"a", b"a"]
    where["now"] = "127.0.0.3"
    time.sleep(1.1)
    until(lambda: busy.get(url).body == b"b", 1, "the new address")
    a.connections[0].wait_ended(1)
    n = a.n
    for _ in range(5):
        assert slow.get(url).body == b"b"
    assert a.n == n
    busy.close()
    slow.close()


def test_busy_connection_to_an_address_that_is_gone_is_not_reused(proxy, dns, origin):
    where = {"now": "127.0.0.2"}
    port = free_port()

    def late(x):
        x.sleep(1.6)
        x.reply(200, b"a")
    a, b = origin(late, host="127.0.0.2", port=port), origin(reply(200, b"b"), host="127.0.0.3", port=port)
    d = dns({"move.test": lambda kind, n: {"A": [where["now"]], "ttl": 1} if kind == "A" else {"ttl": 1}})
    p = proxy(dns=d.policy)
    url = f"http://move.test:{port}/"
    with p.client() as c, p.client() as other:
        c.request("GET", url)
        a.wait(n=1)
        where["now"] = "127.0.0.3"
        time.sleep(1.1)
        until(lambda: other.get(url).body == b"b", 0.5)
        with took(0, 1):
            assert c.response().body == b"a", "what is under way is not disturbed"
        a.connections[0].wait_ended(0.5)
        assert c.get(url).body == b"b"


def test_connection_to_an_address_that_is_denied_by_now_is_not_used(proxy, origin):
    u = origin(reply(200, b"x"))
    p = proxy()
    assert p.get(u.url()).body == b"x"
    p.write({"egress": {"deny_addresses": ["127.0.0.0/8"]}})
    assert p.hup()["result"] == "ok"
    problem(p.get(u.url()), 403, "destination_ip_prohibited")
    assert u.n == 1 and u.connections[0].wait_ended(0.5)


def test_an_idle_client_holds_no_pipe(proxy, origin):
    """The one through which its large answer went goes back, and comes again when it is wanted."""
    body = b"0123456789abcdef" * (256 << 10)
    u = origin(reply(200, body))
    p = proxy()
    with p.client() as c:
        assert c.get(u.url()).body == body
        with_pipe = p.fds()
        until(lambda: p.fds() == with_pipe - 2, 1.5)
        assert c.get(u.url()).body == body
        assert p.fds() == with_pipe
