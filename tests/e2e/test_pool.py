"""Upstream connections: how many, in which order, which are reused and which never."""
import threading
import time

import pytest

from harness import at_most, delay, hold, problem, raw, reply, took


def pool(timeouts=None, **more):
    return {"defaults": {"pool": more, "timeouts": timeouts or {}}}


# case G9
def test_bounded_and_fair(proxy, origin):
    u = origin(delay(0.1, reply(200, b"x")))
    p = proxy(**pool({"pool_wait": "5s"}, max_connections=2))
    clients = [p.client() for _ in range(10)]
    with took(0.5, 0.7):
        for i, c in enumerate(clients):
            c.request("GET", u.url(f"/{i}"))
            p.wait_metric("evenkeel_in_flight", min(i + 1, 2)) if i < 2 else time.sleep(0.004)
        assert [c.response().status for c in clients] == [200] * 10
    assert u.k <= 2
    order = [int(t[1:]) for t in u.targets]
    assert sorted(order[:2]) == [0, 1] and all(abs(order.index(i) - i) <= 1 for i in range(10)), order
    for c in clients:
        c.close()


def test_first_in_first_out(proxy, origin):
    u = origin(delay(0.03, reply(200)))
    p = proxy(**pool({"pool_wait": "5s"}, max_connections=1))
    clients = []
    for i in range(8):
        c = p.client()
        c.request("GET", u.url(f"/{i}"))
        clients.append(c)
        time.sleep(0.01)
    for c in clients:
        assert c.response().status == 200
        c.close()
    assert u.targets == [f"/{i}" for i in range(8)] and u.k == 1


def test_max_pending_refuses_at_once(proxy, origin):
    u = origin(hold())
    p = proxy(**pool({"pool_wait": "5s"}, max_connections=1, max_pending=2))
    clients = [p.client() for _ in range(3)]
    for c in clients:
        c.request("GET", u.url())
        time.sleep(0.01)
    p.wait_metric("evenkeel_pool_pending", 2)
    with took(0, 0.1):
        r = p.get(u.url())
    problem(r, 503, "connection_limit_reached")
    assert int(r.header("Retry-After")) >= 1
    assert p.metric("evenkeel_pool_rejected_total", upstream="default", reason="max_pending") == 1
    for c in clients:
        c.close()
    p.wait_metric("evenkeel_pool_pending", 0)


def test_max_in_flight(proxy, origin):
    u = origin(delay(0.1, reply(200)))
    p = proxy(**pool({"pool_wait": "5s"}, max_connections=10, max_in_flight=2))
    clients = [p.client() for _ in range(4)]
    with took(0.2, 0.3):
        for c in clients:
            c.request("GET", u.url())
        u.wait(n=2)
        time.sleep(0.03)
        assert u.n == 2 and p.metric("evenkeel_in_flight") == 2
        assert [c.response().status for c in clients] == [200] * 4
    assert p.metric("evenkeel_in_flight") == 0
    for c in clients:
        c.close()


def test_limits_are_per_origin(proxy, origin):
    a, b = origin(hold()), origin(reply(200, b"b"))
    p = proxy(**pool(max_connections=1))
    with p.client() as c:
        c.request("GET", a.url())
        a.wait(n=1)
        assert p.get(b.url()).body == b"b"


def test_upstream_connections_over_all_origins(proxy, origin):
    a, b = origin(reply(200, b"a")), origin(reply(200, b"b"))
    p = proxy(limits={"upstream_connections": 1})
    assert p.get(a.url()).body == b"a"
    assert p.get(b.url()).body == b"b", "an idle connection makes room"
    held = origin(hold())
    with p.client() as c:
        c.request("GET", held.url())
        held.wait(n=1)
        r = p.get(a.url())
        assert r.status == 503
        problem(r, 503, "connection_limit_reached")
    assert p.metric("evenkeel_pool_connections", state="active") <= 1


def test_reuse_is_counted(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        for _ in range(4):
            c.get(u.url())
    assert p.metric("evenkeel_connections_opened_total", upstream="default") == 1
    assert p.metric("evenkeel_connections_reused_total", upstream="default") == 3
    assert [p.access(n)["reused"] for n in (1, 2, 3, 4)] == [False, True, True, True]
    assert p.metric("evenkeel_pool_connections", upstream="default", state="idle") == 1


def test_parts_of_a_duration(proxy, origin):
    u = origin(delay(0.2, reply(200)))
    p = proxy(**pool(max_connections=1))
    with p.client() as a, p.client() as b:
        a.request("GET", u.url("/a"))
        u.wait(n=1)
        b.request("GET", u.url("/b"))
        a.response(), b.response()
    first, second = p.access(1), p.access(2)
    assert (first["url"][-2:], first["reused"]) == ("/a", False)
    assert 0 < first["connect_ms"] < 190 and first["queue_ms"] < 190 and first["backoff_ms"] == 0
    assert 199 <= first["first_byte_ms"] <= first["duration_ms"]
    assert (second["url"][-2:], second["reused"], second["connect_ms"]) == ("/b", True, 0)
    assert second["queue_ms"] >= 100 and second["first_byte_ms"] >= 199
    assert second["queue_ms"] + second["first_byte_ms"] <= second["duration_ms"]


def test_idle_timeout(proxy, origin):
    u = origin(reply(200))
    p = proxy(**pool(idle_timeout="200ms"))
    p.get(u.url())
    ended = u.connections[0].wait_ended(1)
    assert 0.19 <= ended - u.requests[0].at <= at_most(0.35, u.requests[0].at)
    p.get(u.url())
    assert u.k == 2


def test_announced_keep_alive_timeout_is_heeded(proxy, origin):
    u = origin(reply(200, headers=[("Keep-Alive", "timeout=1, max=100")]))
    p = proxy()
    p.get(u.url())
    ended = u.connections[0].wait_ended(2)
    assert ended - u.requests[0].at <= 1.15


def test_max_idle(proxy, origin):
    u = origin(delay(0.1, reply(200)))
    p = proxy(**pool(max_idle=2))
    clients = [p.client() for _ in range(6)]
    for c in clients:
        c.request("GET", u.url())
    for c in clients:
        c.response()
        c.close()
    p.wait_metric("evenkeel_pool_connections", 2, state="idle")
    assert u.k == 6


def test_max_requests(proxy, origin):
    u = origin(reply(200))
    p = proxy(**pool(max_requests=2))
    with p.client() as c:
        for _ in range(5):
            assert c.get(u.url()).status == 200
    assert [q.connection.k for q in u.requests] == [1, 1, 2, 2, 3]


def test_max_lifetime(proxy, origin):
    u = origin(reply(200))
    p = proxy(**pool(max_lifetime="200ms"))
    with p.client() as c:
        c.get(u.url())
        c.get(u.url())
        time.sleep(0.25)
        c.get(u.url())
    assert [q.connection.k for q in u.requests] == [1, 1, 2]


# case G5
def test_origin_that_speaks_before_it_is_asked(proxy, origin):
    def serve(conn):
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
        while conn.read_request():
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
    u = origin(on_connection=serve)
    p = proxy(defaults={"retry": {"max_attempts": 1}})
    with p.client() as c:
        first = c.get(u.url("/1"))
        time.sleep(0.05)  # until the surplus is there: before that nobody could tell
        second = c.get(u.url("/2"))
    # Whatever the first gets, no answer may be paired with the wrong request.
    for r in (first, second):
        assert r.status == 502 or r.body in (b"early",), r
    assert second.body != b"late"


def test_surplus_bytes_after_a_response_are_never_paired(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), reply(200, b"good"))
    p = proxy()
    with p.client() as c:
        assert c.get(u.url("/1")).body == b"ok"
        assert c.get(u.url("/2")).body == b"good"
    assert u.k == 2


# case C15
def test_chunks_after_the_last_chunk(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n4\r\nevil\r\n0\r\n\r\n"), reply(200, b"good"))
    with proxy().client() as c:
        assert c.get(u.url("/1")).body == b"ok"
        assert c.get(u.url("/2")).body == b"good"
    assert u.k == 2


# case G11
def test_early_answer_to_an_unfinished_upload_is_not_pooled(proxy, origin):
    def serve(conn):
        request = conn.read_head()
        if request.method == "PUT":
            conn.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
            conn.sleep(0.3)
            return
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        conn.read_head()
    u = origin(on_connection=serve)
    p = proxy(limits={"request_buffer": 0})
    with p.client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n", b"x" * 1000)
        r = c.response()
        assert r.status == 413 and r.body == b"big"
    assert p.get(u.url()).body == b"ok" and u.k == 2


@pytest.mark.parametrize("first", ["Connection: close", "Connection: foo, Close"])
def test_close_in_the_response_is_heeded(proxy, origin, first):
    u = origin(raw(f"HTTP/1.1 200 OK\r\n{first}\r\nContent-Length: 2\r\n\r\nok".encode()), reply(200, b"ok"))
    with proxy().client() as c:
        assert c.get(u.url()).body == b"ok" and c.get(u.url()).body == b"ok"
    assert u.k == 2


def test_waiters_get_their_turn_when_connections_fail(proxy, origin):
    u = origin(lambda x: (x.sleep(0.03), x.reset()))
    p = proxy(defaults={"pool": {"max_connections": 1}, "timeouts": {"pool_wait": "5s"}, "retry": {"max_attempts": 1}})
    answers = []

    def work():
        answers.append(p.get(u.url()).status)
    with p.no_leak():
        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert answers == [502] * 6 and u.n == 6


def test_retry_goes_back_in_line(proxy, origin):
    u = origin(lambda x: x.reply(503 if x.request.header("Evenkeel-Previous-Attempts") is None and x.request.target == "/a" else 200))
    p = proxy(**pool({"pool_wait": "5s"}, max_connections=1))
    with p.client() as a, p.client() as b:
        a.request("GET", u.url("/a"))
        b.request("GET", u.url("/b"))
        assert a.response().status == 200 and b.response().status == 200
    assert p.metric("evenkeel_pool_pending") == 0 and p.metric("evenkeel_in_flight") == 0
