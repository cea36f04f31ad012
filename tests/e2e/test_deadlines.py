"""Time limits: which one ends what, when, and what the client gets then."""
import socket
import threading
import time

import pytest

from harness import SLOWNESS, Incomplete, at_most, delay, hold, problem, raw, reply, took


def limits(retry=None, **timeouts):
    return {"defaults": {"timeouts": timeouts, **({"retry": retry} if retry else {})}}


# --- total

def test_total_while_waiting_for_headers(proxy, origin):
    u = origin(hold())
    p = proxy(**limits(total="400ms"))
    with p.no_leak():
        with took(0.4, 0.45):
            r = p.get(u.url())
        body = problem(r, 504, "http_response_timeout", upstream="default")
        assert 390 <= body["elapsed_ms"] <= 600 * SLOWNESS
        u.connections[0].wait_ended(0.5)
    assert u.n == 1
    assert p.metric("evenkeel_timeouts_total", upstream="default", kind="total") == 1
    assert p.metric("evenkeel_requests_total", code="504") == 1
    access = p.access()
    assert access["status"] == 504 and access["error"] == "http_response_timeout"


# case F1
def test_total_covers_queue_attempts_and_backoff(proxy, origin):
    def step(x):
        if x.request.target == "/first":
            x.sleep(0.5)
            x.reply(200)
        elif x.n == 2:
            x.reply(503)
        else:
            x.hold()
    u = origin(step)
    p = proxy(defaults={"timeouts": {"total": "1s", "pool_wait": "2s"},
                        "pool": {"max_connections": 1},
                        "retry": {"backoff": {"base": "200ms", "max": "200ms"}}})
    with p.client() as first, p.client() as second:
        first.request("GET", u.url("/first"))
        u.wait(n=1)
        start = time.monotonic()
        with took(1.0, 1.05):
            r = second.get(u.url("/second"))
        problem(r, 504, "http_response_timeout", attempts=2)
        assert first.response().status == 200
    access = p.access(url=u.url("/second"))
    assert access["queue_ms"] >= 400 and 199 <= access["backoff_ms"] <= 1000 * at_most(0.2, start)


def test_total_ends_a_dripping_body(proxy, origin):
    u = origin(lambda x: (x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), x.drip(b"1\r\na\r\n" * 100, every=0.05, size=6)))
    p = proxy(**limits(total="500ms"))
    with took(0.5, 0.6):
        with p.client() as c, pytest.raises(Incomplete) as broken:
            c.get(u.url())
    assert broken.value.response.status == 200 and u.n == 1
    p.wait_metric("evenkeel_timeouts_total", 1, kind="total")
    u.connections[0].wait_ended(0.5)
    access = p.access()
    assert (access["verdict"], access["aborted"], access["error"]) == ("committed", True, "http_response_timeout")
    assert p.metric("evenkeel_retries_suppressed_total", reason="deadline") == 0


def test_total_counts_a_slow_upload(proxy, origin):
    u = origin(reply(200))
    p = proxy(**limits(total="600ms"))
    with p.client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        start = time.monotonic()

        def upload():
            try:
                for _ in range(30):
                    c.send("x")
                    time.sleep(0.1)
            except OSError:
                pass
        thread = threading.Thread(target=upload)
        thread.start()
        r = c.response()
        assert 0.55 <= time.monotonic() - start <= at_most(0.65, start)
        problem(r, 504, "http_response_timeout")
        c.close()
        thread.join()


def test_total_off(proxy, origin):
    u = origin(delay(0.3, reply(200, b"x")))
    assert proxy(**limits(total="off", attempt="off", response_headers="off", body_idle="off")).get(u.url()).status == 200


def test_attempt_is_cut_to_what_is_left_of_total(proxy, origin):
    u = origin(hold())
    p = proxy(**limits(total="700ms", attempt="500ms"))
    with took(0.7, 0.75):
        r = p.get(u.url())
    problem(r, 504, "http_response_timeout", attempts=2)
    assert u.n == 2 and 150 <= p.wait_log("retry")["left_ms"] <= 205


# The origin has said all; what strikes is the client's slowness, and the attempt was a good one.
def test_total_ends_a_client_that_takes_nothing(proxy, origin):
    u = origin(reply(200, b"x" * (8 << 20)))
    p = proxy(defaults={"timeouts": {"total": "600ms"}, "retry": {"hold_response": "16MiB"}})
    with p.client() as c:
        c.request("GET", u.url())
        p.wait_metric("evenkeel_timeouts_total", 1, kind="total")
    assert p.metric("evenkeel_requests_total", code="aborted") == 1
    assert p.metric("evenkeel_attempts_total", outcome="2xx") == 1
    assert p.metric("evenkeel_attempts_total", outcome="attempt_timeout") == 0
    assert p.access()["aborted"] is True


# --- attempt

def test_slow_attempt_is_repeated(proxy, origin):
    u = origin(hold(), reply(200, b"quick"))
    p = proxy(**limits(attempt="200ms"))
    with took(0.2, 0.25):
        r = p.get(u.url())
    assert (r.body, r.attempts, u.n) == (b"quick", 2, 2)
    assert p.metric("evenkeel_retries_total", reason="attempt_timeout") == 1
    assert p.metric("evenkeel_timeouts_total", kind="attempt") == 1
    assert p.metric("evenkeel_attempts_total", outcome="attempt_timeout") == 1


def test_slow_attempt_each_time(proxy, origin):
    u = origin(hold())
    with took(0.45, 0.6):
        r = proxy(**limits(attempt="150ms")).get(u.url())
    problem(r, 504, "http_response_timeout", verdict="attempts", attempts=3)
    assert u.n == 3


def test_slow_attempt_of_a_post_is_not_repeated(proxy, origin):
    u = origin(hold())
    with took(0.15, 0.2):
        r = proxy(**limits(attempt="150ms")).fetch("POST", u.url(), body=b"x")
    problem(r, 504, "http_response_timeout", verdict="method", attempts=1)
    assert u.n == 1


# case F3
def test_trickled_headers_do_not_re_arm(proxy, origin):
    u = origin(lambda x: x.drip(b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100, every=0.05), reply(200, b"second"))
    p = proxy(**limits(attempt="400ms"))
    with took(0.4, 0.45):
        assert p.get(u.url()).body == b"second"


def test_attempt_holds_for_a_held_body(proxy, origin):
    u = origin(lambda x: (x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"), x.drip(b"a" * 50, every=0.05)), reply(200, b"b" * 50))
    p = proxy(**limits(attempt="300ms"))
    with took(0.3, 0.35):
        assert p.get(u.url()).body == b"b" * 50


# --- response_headers

def test_response_headers(proxy, origin):
    u = origin(hold(), reply(200, b"ok"))
    p = proxy(**limits(response_headers="200ms"))
    with took(0.2, 0.25):
        assert p.get(u.url()).body == b"ok"
    assert p.metric("evenkeel_timeouts_total", kind="response_headers") == 1


def test_response_headers_does_not_bound_the_body(proxy, origin):
    u = origin(lambda x: (x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"), x.sleep(0.4), x.send(b"b")))
    assert proxy(**limits(response_headers="200ms")).get(u.url()).body == b"ab"


def test_interim_responses_do_not_re_arm_response_headers(proxy, origin):
    def step(x):
        while True:
            x.send(b"HTTP/1.1 102 Processing\r\n\r\n")
            x.sleep(0.1)
    u = origin(step)
    with took(0.35, 0.4):
        r = proxy(**limits(response_headers="350ms"), ).fetch("POST", u.url(), body=b"x")
    assert r.status == 504


# case F5
def test_response_headers_starts_when_the_request_is_sent(proxy, origin):
    u = origin(reply(200, b"ok"))
    p = proxy(**limits(response_headers="300ms"))
    with p.client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n")
        for _ in range(8):
            time.sleep(0.1)
            c.send("x")
        assert c.response().status == 200


# --- body_idle

def test_silent_held_body_is_repeated(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", then="hold"), reply(200, b"123456789"))
    p = proxy(**limits(body_idle="200ms"))
    with took(0.2, 0.25):
        r = p.get(u.url())
    assert r.body == b"123456789" and r.attempts == 2
    assert p.metric("evenkeel_timeouts_total", kind="body_idle") == 1


def test_silent_held_body_each_time(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", then="hold"))
    r = proxy(**limits({"max_attempts": 1}, body_idle="200ms")).get(u.url())
    problem(r, 504, "connection_read_timeout")


def test_silent_passed_on_body_ends_the_client_connection(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", then="hold"))
    with took(0.2, 0.25):
        with proxy(**limits(body_idle="200ms")).client() as c, pytest.raises(Incomplete) as broken:
            c.get(u.url())
    assert broken.value.response.body == b"abc" and u.n == 1


def test_body_idle_is_re_armed_by_each_read(proxy, origin):
    u = origin(lambda x: (x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"), x.drip(b"a" * 8, every=0.1)))
    with took(0.6, 1.0):
        assert proxy(**limits(body_idle="300ms")).get(u.url()).body == b"a" * 8


def test_a_slow_reader_is_not_upstream_silence(proxy, origin):
    data = b"d" * 8_000_000
    u = origin(reply(200, data))
    with proxy(**limits(body_idle="200ms")).client() as c:
        head = c.request("GET", u.url()).head()
        time.sleep(0.8)
        c.body(head)
        assert head.body == data


# --- streams

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_streams_outlast_total_and_attempt(proxy, origin):
    u = origin(lambda x: (x.send(STREAM), x.drip(b"1\r\na\r\n" * 8 + b"0\r\n\r\n", every=0.1, size=6)))
    r = proxy(**limits(total="300ms", attempt="200ms")).get(u.url())
    assert r.body == b"a" * 8


def test_streams_are_bound_by_body_idle(proxy, origin):
    u = origin(raw(STREAM + b"1\r\na\r\n", then="hold"))
    with took(0.2, 0.3):
        with proxy(**limits(body_idle="200ms")).client() as c, pytest.raises(Incomplete):
            c.get(u.url())


def test_streams_are_bound_by_stream_total(proxy, origin):
    u = origin(lambda x: (x.send(STREAM), x.drip(b"1\r\na\r\n" * 100, every=0.05, size=6)))
    p = proxy(**limits(stream_total="400ms"))
    with took(0.4, 0.5):
        with p.client() as c, pytest.raises(Incomplete):
            c.get(u.url())
    p.wait_metric("evenkeel_timeouts_total", 1, kind="stream_total")


def test_stream_headers_are_still_bound(proxy, origin):
    u = origin(hold())
    with took(0.3, 0.35):
        problem(proxy(**limits(total="300ms")).get(u.url(), [("Accept", "text/event-stream")]), 504, "http_response_timeout")


# --- connecting

def test_connect(proxy, blackhole):
    p = proxy(**limits({"max_attempts": 1}, connect="200ms"))
    with p.no_leak():
        with took(0.2, 0.25):
            r = p.get(blackhole.url())
        problem(r, 504, "connection_timeout", attempts=1)
    assert p.metric("evenkeel_timeouts_total", kind="connect") == 1


def test_connect_is_repeated_for_post(proxy, blackhole):
    with took(0.3, 0.4):
        r = proxy(**limits(connect="100ms")).fetch("POST", blackhole.url(), body=b"x")
    problem(r, 504, "connection_timeout", attempts=3, verdict="attempts")


def test_tls_handshake(proxy, origin):
    u = origin(on_connection=lambda conn: conn.hold())
    p = proxy(defaults={"timeouts": {"tls_handshake": "200ms"}, "retry": {"max_attempts": 1}},
              upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"]}, "tls": {"originate": "on"}}])
    with took(0.2, 0.3):
        r = p.get(u.url())
    problem(r, 504, "connection_timeout", upstream="t")
    assert p.metric("evenkeel_timeouts_total", upstream="t", kind="tls_handshake") == 1


# --- waiting for a slot

def test_pool_wait(proxy, origin):
    u = origin(hold())
    p = proxy(defaults={"timeouts": {"pool_wait": "200ms"}, "pool": {"max_connections": 1}})
    with p.client() as first:
        first.request("GET", u.url())
        u.wait(n=1)
        with took(0.2, 0.25):
            r = p.get(u.url())
    problem(r, 503, "connection_limit_reached", upstream="default")
    assert int(r.header("Retry-After")) >= 1
    assert u.n == 1 and p.metric("evenkeel_pool_rejected_total", reason="pool_wait") == 1
    assert p.metric("evenkeel_timeouts_total", kind="pool_wait") == 1


# --- the client's own limits

def test_client_header_timeout(proxy):
    p = proxy(client={"header_timeout": "300ms"})
    with p.client() as c:
        with took(0.3, 0.35):
            c.send("GET http://127.0.0.1/ HTTP/1.1\r\nHo")
            r = c.response()
        problem(r, 408, "http_request_error")
        assert c.closed()


def test_client_header_timeout_is_not_re_armed(proxy):
    p = proxy(client={"header_timeout": "400ms"})
    with p.client() as c:
        start = time.monotonic()
        try:
            for byte in "GET http://127.0.0.1/ HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaa":
                c.send(byte)
                time.sleep(0.05)
                if time.monotonic() - start > 0.6:
                    break
        except OSError:
            pass
        try:
            assert c.response().status == 408
        except Incomplete as broken:
            assert broken.how == "reset"
        assert time.monotonic() - start < 1.0 * SLOWNESS


def test_client_body_idle_timeout(proxy, origin):
    u = origin(reply(200))
    p = proxy(client={"body_idle_timeout": "300ms"})
    with p.no_leak(), p.client() as c:
        with took(0.3, 0.35):
            r = c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").response()
        problem(r, 408, "http_request_error")
        assert c.closed()


def test_client_idle_timeout(proxy, origin):
    u = origin(reply(200))
    p = proxy(client={"idle_timeout": "300ms"})
    with p.client() as c:
        c.get(u.url())
        assert c.silent(0.2) and c.closed(0.4)
    with p.client() as c, took(0.0, 1.0):
        assert c.closed(1.0)


def test_short_idle_timeout_does_not_touch_a_running_request(proxy, origin):
    u = origin(delay(0.5, reply(200, b"x")))
    p = proxy(client={"idle_timeout": "100ms", "header_timeout": "100ms", "body_idle_timeout": "100ms"})
    assert p.get(u.url()).body == b"x"


# case F7
@pytest.mark.limit(90)
def test_answers_at_the_very_deadline(proxy, origin):
    u = origin(lambda x: (x.sleep(0.018 + (x.n % 9) * 0.0005), x.reply(200, b"ok")))
    p = proxy(**limits({"max_attempts": 1}, total="20ms"))
    seen = {200: 0, 504: 0}
    for _ in range(300):
        with p.client() as c:
            try:
                r = c.get(u.url())
            except Incomplete:
                continue
            seen[r.status] += 1
            assert c.silent(0.002) or c.buffer == b"", "one answer only"
    assert sum(seen.values()) > 200, seen
    assert p.metric("evenkeel_in_flight") == 0


def test_a_listener_that_never_reads_is_cut_by_total(proxy):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    p = proxy(**limits(total="400ms"))
    with took(0.4, 0.5):
        r = p.fetch("PUT", "http://127.0.0.1:%d/" % listener.getsockname()[1], body=b"x" * 100000)
    problem(r, 504, "http_response_timeout")
    listener.close()
