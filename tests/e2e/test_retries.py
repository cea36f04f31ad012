"""When a failed attempt is repeated, when it isn't, and what the client and the log get to see of it."""
import email.utils
import threading
import time

import pytest

from harness import Incomplete, Origin, at_most, close, delay, free_port, hold, problem, raw, reply, rst, took, until


def counted(x):
    """503 that says which attempt it answers."""
    x.reply(503, b"n=%d" % x.n, [("X-N", str(x.n))])


def retry(**more):
    return {"defaults": {"retry": more}}


# --- which outcomes are repeated

@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_listed_status_is_mended(proxy, origin, status):
    u = origin(reply(status, b"no"), reply(200, b"yes"))
    p = proxy()
    r = p.get(u.url("/x"))
    assert (r.status, r.body, r.attempts) == (200, b"yes", 2)
    assert u.n == 2
    line = p.wait_log("retry")
    assert line["attempt"] in (1, 2) and line["max_attempts"] == 3 and line["reason"] in (status, str(status))
    assert line["upstream"] == "default" and line["id"] == r.header("X-Request-Id")
    assert line["delay_ms"] == 5 and 0 < line["left_ms"] <= 30000
    assert 0 < line["attempt_timeout_ms"] <= 10000
    access = p.access()
    assert access["attempts"] == 2 and access["verdict"] == "ok" and access["status"] == 200
    m = p.metrics()
    assert p.metric("evenkeel_retries_total", m, upstream="default", reason=str(status)) == 1
    assert p.metric("evenkeel_attempts_total", m, upstream="default", outcome=f"{status // 100}xx") == 1
    assert p.metric("evenkeel_attempts_total", m, upstream="default", outcome="2xx") == 1
    assert p.metric("evenkeel_requests_total", m, upstream="default", code="200") == 1


# case D9
@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 425, 500, 501, 505])
def test_other_status_is_not(proxy, origin, status):
    u = origin(reply(status, b"body", [("X-N", "1")]), reply(200))
    p = proxy()
    r = p.get(u.url())
    assert (r.status, r.body, r.attempts, r.header("X-N")) == (status, b"body", 1, "1")
    assert u.n == 1 and p.access()["verdict"] == "not_listed"


@pytest.mark.parametrize("on, status, n", [(["5xx"], 500, 2), (["5xx"], 404, 1), (["4xx"], 404, 2), ([404], 404, 2), ([], 503, 1)])
def test_on_lists_classes_and_numbers(proxy, origin, on, status, n):
    u = origin(reply(status), reply(200))
    assert proxy(**retry(on=on)).get(u.url()).status == (200 if n == 2 else status)
    assert u.n == n


# case D7
def test_when_all_fails_the_last_response_is_the_answer(proxy, origin):
    u = origin(counted)
    p = proxy()
    r = p.get(u.url())
    assert (r.status, r.reason, r.body, r.header("X-N"), r.attempts) == (503, "Service Unavailable", b"n=3", "3", 3)
    assert r.header("Proxy-Status") is None and u.n == 3
    access = p.access()
    assert access["verdict"] == "attempts" and access["attempts"] == 3 and access["status"] == 503
    assert p.metric("evenkeel_retries_suppressed_total", upstream="default", reason="attempts") == 1
    assert p.metric("evenkeel_retries_total", upstream="default", reason="503") == 2


@pytest.mark.parametrize("step", [rst(), close(), raw(b"HTTP/1.1 20", then="close"), raw(b"HTTP/1.1 20", then="reset"),
                                  raw(b"HTTP/1.1 200 OK\r\nContent-Le", then="close")],
                         ids=["reset", "close", "cut status line", "reset in status line", "cut header"])
def test_broken_before_the_headers_are_complete(proxy, origin, step):
    u = origin(step, step, reply(200, b"third"))
    p = proxy()
    r = p.get(u.url())
    assert (r.status, r.body, r.attempts, u.n) == (200, b"third", 3, 3)
    assert p.metric("evenkeel_retries_total", reason="reset") == 2


# case D11
def test_broken_each_time(proxy, origin):
    u = origin(raw(b"HTTP/1.1 20", then="close"))
    r = proxy().get(u.url())
    problem(r, 502, "connection_terminated", verdict="attempts", attempts=3, upstream="default")
    assert u.n == 3


def test_connection_refused_each_time(proxy):
    p = proxy()
    r = p.get(f"http://127.0.0.1:{free_port()}/")
    problem(r, 502, "connection_refused", verdict="attempts", attempts=3)
    assert p.metric("evenkeel_retries_total", reason="connect_failure") == 2
    assert p.metric("evenkeel_attempts_total", outcome="connect_failure") == 3


# case D3
def test_refused_connections_are_safe_to_repeat_for_post(proxy, makers):
    port = free_port()
    made = []

    def later():
        time.sleep(0.2)
        made.append(makers.add(Origin(lambda x: x.reply(200, x.request.body), port=port)))
    thread = threading.Thread(target=later)
    thread.start()
    p = proxy(**retry(max_attempts=4, backoff={"base": "150ms", "max": "150ms", "jitter": "none"}))
    r = p.fetch("POST", f"http://127.0.0.1:{port}/x", body=b"charge me once")
    thread.join()
    assert r.status == 200 and r.body == b"charge me once" and 2 <= r.attempts <= 4
    assert made[0].n == 1


# --- which requests are repeated

# case D15
@pytest.mark.parametrize("method, repeated", [("GET", True), ("HEAD", True), ("OPTIONS", True), ("PUT", True), ("DELETE", True),
                                              ("TRACE", True), ("POST", False), ("PATCH", False)])
def test_methods(proxy, origin, method, repeated):
    u = origin(reply(503, b"no"), reply(200, b""))
    p = proxy()
    r = p.fetch(method, u.url())
    assert r.status == (200 if repeated else 503) and u.n == (2 if repeated else 1)
    assert p.access()["verdict"] == ("ok" if repeated else "method")


def test_post_is_not_repeated_after_a_reset(proxy, origin):
    u = origin(rst(), reply(200))
    p = proxy()
    r = p.fetch("POST", u.url(), body=b"x")
    problem(r, 502, "connection_terminated", verdict="method", attempts=1)
    assert u.n == 1 and p.metric("evenkeel_retries_suppressed_total", reason="method") == 1


def test_own_list_of_methods(proxy, origin):
    u = origin(reply(503), reply(200))
    assert proxy(**retry(methods=["POST"])).fetch("POST", u.url(), body=b"x").status == 200
    v = origin(reply(503), reply(200))
    assert proxy(**retry(methods=["POST"])).get(v.url()).status == 503 and v.n == 1


@pytest.mark.parametrize("step", [reply(503), rst()], ids=["503", "reset"])
def test_idempotency_key_makes_post_repeatable(proxy, origin, step):
    u = origin(step, reply(201, b"made"))
    r = proxy().fetch("POST", u.url(), [("idempotency-key", "abc-1")], body=b"payload")
    assert r.status == 201 and u.n == 2
    assert [q.body for q in u.requests] == [b"payload"] * 2
    assert [q.header("Idempotency-Key") for q in u.requests] == ["abc-1"] * 2


def test_idempotency_key_of_another_name_or_off(proxy, origin):
    u = origin(reply(503), reply(200))
    assert proxy(**retry(idempotency_key="X-Once")).fetch("POST", u.url(), [("X-Once", "1")], body=b"x").status == 200
    v = origin(reply(503), reply(200))
    assert proxy(**retry(idempotency_key="off")).fetch("POST", v.url(), [("Idempotency-Key", "1")], body=b"x").status == 503
    assert v.n == 1


# case D13
def test_every_attempt_carries_the_same_request(proxy, origin):
    u = origin(rst(), reply(503), reply(200))
    sent = [("X-b", "1"), ("Accept", "*/*"), ("X-b", "2")]
    body = bytes(range(256)) * 300
    r = proxy().fetch("PUT", u.url("/p?q=1"), sent, body=body)
    assert r.status == 200 and u.n == 3
    heads = [[h for h in q.headers if h[0] != "Evenkeel-Previous-Attempts"] for q in u.requests]
    assert heads[0] == heads[1] == heads[2]
    assert [q.header("Evenkeel-Previous-Attempts") for q in u.requests] == [None, "1", "2"]
    assert all(len(q.all("Via")) == 1 and len(q.all("Host")) == 1 for q in u.requests)
    assert all(q.body == body and q.target == "/p?q=1" for q in u.requests)


def test_chunked_body_is_replayed(proxy, origin):
    u = origin(reply(503), reply(200))
    with proxy().client() as c:
        assert c.request("PUT", u.url(), chunked=[b"abc", b"defg"]).response().status == 200
    assert [q.body for q in u.requests] == [b"abcdefg", b"abcdefg"]


# case D5
@pytest.mark.parametrize("size, n", [(65536, 2), (65537, 1), (3000000, 1)])
def test_body_larger_than_the_replay_buffer(proxy, origin, size, n):
    u = origin(counted, reply(200, b"ok"))
    p = proxy(limits={"request_buffer": "64KiB"})
    r = p.fetch("PUT", u.url(), body=b"b" * size)
    assert u.n == n and u.requests[-1].body == b"b" * size
    if n == 2:
        assert r.status == 200
    else:
        assert (r.status, r.body, r.attempts) == (503, b"n=1", 1)
        assert p.access()["verdict"] == "body"
        assert p.metric("evenkeel_retries_suppressed_total", reason="body") == 1


def test_past_buffered_bytes_requests_go_on_unbuffered(proxy, origin):
    u = origin(counted)
    p = proxy(limits={"buffered_bytes": "1KiB"})
    r = p.fetch("PUT", u.url(), body=b"b" * 100000)
    assert r.status == 503 and u.n == 1 and u.requests[0].body == b"b" * 100000


def test_max_attempts_1_never_repeats(proxy, origin):
    u = origin(counted)
    r = proxy(**retry(max_attempts=1)).get(u.url())
    assert r.status == 503 and u.n == 1 and r.attempts == 1


def test_routes_have_their_own_rule(proxy, origin):
    u = origin(counted)
    p = proxy(upstreams=[{"name": "pay", "match": {"hosts": ["127.0.0.1"]}, "retry": {"max_attempts": 2},
                          "routes": [{"match": {"methods": ["GET"], "paths": ["/v1/charges"]}, "retry": {"max_attempts": 1}},
                                     {"match": {"paths": ["/v1/*"]}, "retry": {"max_attempts": 4}}]}])
    for path, n in [("/v1/charges", 1), ("/v1/%63harges", 1), ("/v1/x/../charges?q", 1), ("/v1/other", 4), ("/else", 2)]:
        before = u.n
        r = p.get(u.url(path))
        assert (r.attempts, u.n - before, r.header("Evenkeel-Upstream")) == (n, n, "pay"), path
        assert u.targets[-1] == path, "what is forwarded stays as it came"


def test_nested_retries_are_refused(proxy, origin):
    u = origin(counted)
    p = proxy()
    r = p.get(u.url(), [("Evenkeel-Previous-Attempts", "1")])
    assert r.status == 503 and u.n == 1 and p.access()["verdict"] == "nested"
    assert u.requests[0].header("Evenkeel-Previous-Attempts") is not None


def test_nested_retries_may_be_allowed(proxy, origin):
    u = origin(reply(503), reply(200))
    r = proxy(**retry(nested="allow")).get(u.url(), [("Evenkeel-Previous-Attempts", "1")])
    assert r.status == 200 and u.n == 2


# --- overrides by request headers

def test_request_may_tighten(proxy, origin):
    u = origin(counted)
    p = proxy()
    r = p.get(u.url(), [("Evenkeel-Max-Attempts", "1")])
    assert r.status == 503 and u.n == 1
    assert p.get(u.url(), [("Evenkeel-Max-Attempts", "9")]).attempts == 3, "tighten never widens"
    with took(0.2, 0.3):
        v = origin(hold())
        with p.client() as c:
            problem(c.get(v.url(), [("Evenkeel-Timeout", "200ms")]), 504, "http_response_timeout")
    assert all(q.header("Evenkeel-Max-Attempts") is None and q.header("Evenkeel-Timeout") is None
               for q in u.requests + v.requests)


def test_override_any_and_off(proxy, origin):
    u = origin(counted)
    assert proxy(defaults={"override": "any"}).get(u.url(), [("Evenkeel-Max-Attempts", "5")]).attempts == 5
    v = origin(counted)
    r = proxy(defaults={"override": "off"}).get(v.url(), [("Evenkeel-Max-Attempts", "1")])
    assert r.attempts == 3 and v.requests[0].header("Evenkeel-Max-Attempts") is None


@pytest.mark.parametrize("name, value", [("Evenkeel-Timeout", "soon"), ("Evenkeel-Timeout", "-1s"), ("Evenkeel-Timeout", ""),
                                         ("Evenkeel-Max-Attempts", "0"), ("Evenkeel-Max-Attempts", "many"),
                                         ("Evenkeel-Max-Attempts", "99999999999999999999")])
def test_bad_override_is_an_error(proxy, origin, name, value):
    u = origin(reply(200))
    problem(proxy().get(u.url(), [(name, value)]), 400, "http_request_error")
    assert u.n == 0


# --- held responses

def test_broken_held_body_is_repeated(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789", then="close"), reply(200, b"w" * 100))
    p = proxy()
    r = p.get(u.url())
    assert (r.status, r.body, r.attempts, u.n) == (200, b"w" * 100, 2, 2)
    assert p.metric("evenkeel_retries_total", reason="incomplete_body") == 1


def test_broken_held_body_each_time(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789", then="close"))
    problem(proxy().get(u.url()), 502, "http_response_incomplete", verdict="attempts", attempts=3)
    assert u.n == 3


# case C1
@pytest.mark.parametrize("hold_response", [0, "64KiB"])
def test_broken_passed_on_body_never_looks_complete(proxy, origin, hold_response):
    length = 100 if hold_response == 0 else 65537
    u = origin(raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n0123456789" % length, then="close"))
    p = proxy(**retry(hold_response=hold_response))
    with p.client() as c, pytest.raises(Incomplete) as broken:
        c.get(u.url())
    assert broken.value.response.status == 200 and broken.value.response.body in (b"", b"0123456789")
    assert u.n == 1
    assert p.access()["verdict"] == "committed"
    p.wait_metric("evenkeel_requests_total", 1, code="aborted")


def test_broken_chunked_body_never_looks_complete(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", then="close"))
    with proxy().client() as c, pytest.raises(Incomplete) as broken:
        c.get(u.url())
    assert broken.value.response.body in (b"", b"hello") and u.n == 1


# case D1
def test_nothing_is_repeated_once_a_byte_went_out(proxy, origin):
    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        x.sleep(0.6)
        x.send(b"1\r\nb\r\n0\r\n\r\n")
    u = origin(step)
    p = proxy(defaults={"timeouts": {"attempt": "300ms", "total": "2s"}})
    with p.client() as c:
        try:
            r = c.get(u.url())
            assert r.body == b"ab"
        except Incomplete as broken:
            assert broken.response.status == 200 and broken.response.body == b"a"
            assert b"HTTP/1.1" not in c.buffer
    assert u.n == 1


def test_a_large_refusal_is_dropped_before_the_next_attempt(proxy, origin):
    u = origin(reply(503, b"n" * 1000000), reply(200, b"fine"))
    p = proxy()
    with p.no_leak():
        assert p.get(u.url()).body == b"fine"


# --- waiting

def test_backoff_grows(proxy, origin):
    u = origin(counted)
    p = proxy(**retry(max_attempts=4, backoff={"base": "100ms", "multiplier": 2, "max": "250ms", "jitter": "none"}))
    start = time.monotonic()
    p.get(u.url())
    at = [q.at for q in u.requests]
    for gap, wanted in zip([b - a for a, b in zip(at, at[1:])], (0.1, 0.2, 0.25), strict=True):
        assert wanted - 0.001 <= gap <= at_most(wanted, start, 0.06)
    assert [line["delay_ms"] for line in p.logs("retry")] == [100, 200, 250]
    assert 0.549 <= p.metric("evenkeel_backoff_seconds_total") <= at_most(0.55, start)
    assert 549 <= p.access()["backoff_ms"] <= 1000 * at_most(0.55, start)


# case E5
def test_full_jitter_spreads(proxy, origin):
    u = origin(lambda x: x.reply(503 if x.request.header("Evenkeel-Previous-Attempts") is None else 200))
    p = proxy(**retry(max_attempts=2, budget="off", backoff={"base": "400ms", "max": "400ms", "jitter": "full"}))
    clients = [p.client() for _ in range(60)]
    for c in clients:
        c.request("GET", u.url())
    assert [c.response().status for c in clients] == [200] * 60
    delays = [line["delay_ms"] for line in p.logs("retry")]
    assert len(delays) == 60 and all(0 <= d <= 400 for d in delays)
    buckets = [int(d // 40) for d in delays]
    assert max(buckets.count(b) for b in set(buckets)) <= 20 and len(set(buckets)) >= 6
    assert 120 < sum(delays) / 60 < 280
    for c in clients:
        c.close()


def test_jitter_differs_from_run_to_run(proxy, origin):
    seen = []
    for _ in range(2):
        u = origin(counted)
        p = proxy(**retry(max_attempts=4, backoff={"base": "30ms", "max": "100ms", "jitter": "full"}))
        p.get(u.url())
        seen.append(tuple(line["delay_ms"] for line in p.logs("retry")))
    assert len(seen[0]) == 3 and seen[0] != seen[1]


# case E1
@pytest.mark.parametrize("value", ["0", "-3", "+3", "1.5", "abc", "", "1 2", "1s", "Sun, 06 Nov 1994 08:49:37 GMT",
                                   "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 99 Nov 1994 08:49:60 GMT"])
def test_retry_after_in_the_past_or_invalid_means_the_usual_backoff(proxy, origin, value):
    u = origin(reply(503, headers=[("Retry-After", value)]), reply(200, b"ok"))
    with took(0, 0.3):
        r = proxy().get(u.url())
    assert r.status == 200 and u.n == 2


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("value", ["1", " 1 ", "date"])
def test_retry_after_is_waited_for(proxy, origin, status, value):
    if value == "date":
        value = email.utils.formatdate(time.time() + 2, usegmt=True)
    u = origin(reply(status, headers=[("Retry-After", value)]), reply(200, b"ok"))
    with took(0.9, 2.3):
        assert proxy().get(u.url()).status == 200
    assert u.n == 2


# case E1 (huge values)
@pytest.mark.parametrize("value", ["31", "9223372037", "99999999999999999999", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_retry_after_beyond_max_hands_the_response_over_at_once(proxy, origin, value):
    u = origin(reply(503, b"later", [("Retry-After", value)]), reply(200))
    p = proxy(defaults={"timeouts": {"total": "60s"}})
    with took(0, 0.2):
        r = p.get(u.url())
    assert (r.status, r.body, r.header("Retry-After"), u.n) == (503, b"later", value, 1)
    assert p.access()["verdict"] == "retry_after"
    assert p.metric("evenkeel_retries_suppressed_total", reason="retry_after") == 1


def test_retry_after_beyond_the_deadline(proxy, origin):
    u = origin(reply(503, b"later", [("Retry-After", "2")]), reply(200))
    p = proxy(defaults={"timeouts": {"total": "1s"}})
    with took(0, 0.2):
        assert p.get(u.url()).body == b"later"
    assert u.n == 1 and p.access()["verdict"] == "retry_after"


# case E3
def test_retry_after_on_200_means_nothing(proxy, origin):
    u = origin(reply(200, b"ok", [("Retry-After", "5")]))
    p = proxy()
    with took(0, 0.3):
        assert p.get(u.url()).status == 200
        assert p.get(u.url()).status == 200


def test_retry_after_can_be_ignored(proxy, origin):
    u = origin(reply(503, headers=[("Retry-After", "5")]), reply(200))
    with took(0, 0.3):
        assert proxy(**retry(retry_after={"honor": "off"})).get(u.url()).status == 200


def test_an_absurd_wish_quiets_the_origin_for_max_only(proxy, origin):
    u = origin(reply(503, headers=[("Retry-After", "86400")]), reply(503), reply(200, b"ok"))
    p = proxy(**retry(retry_after={"max": "600ms"}))
    assert p.get(u.url()).status == 503  # not waited for
    assert p.get(u.url()).body == b"ok" and u.n == 3
    assert u.requests[2].at - u.requests[0].at >= 0.59
    assert p.logs("retry")[0]["delay_ms"] <= 600


def test_quiet_is_kept_by_all_retries_but_not_by_first_attempts(proxy, origin):
    def step(x):
        if x.request.target == "/a" and x.request.header("Evenkeel-Previous-Attempts") is None:
            x.reply(503, headers=[("Retry-After", "1")])
        elif x.request.target == "/b" and x.request.header("Evenkeel-Previous-Attempts") is None:
            x.reply(503)
        else:
            x.reply(200, b"ok")
    u = origin(step)
    p = proxy()
    with p.client() as a, p.client() as b:
        a.request("GET", u.url("/a"))
        u.wait(n=1)
        until(lambda: p.logs("retry"), 1)
        with took(0, 0.15):
            assert p.get(u.url("/c")).status == 200
        with took(0.6, 1.2):
            assert b.get(u.url("/b")).status == 200
        assert a.response().status == 200


# --- what stops retries

def test_budget_runs_out(proxy, origin):
    u = origin(counted)
    p = proxy(**retry(budget={"ratio": 0, "reserve": 3, "min_per_second": 0, "window": "10s"}))
    assert [p.get(u.url()).attempts for _ in range(4)] == [3, 2, 1, 1]
    assert [p.access(n)["verdict"] for n in (1, 2, 3, 4)] == ["attempts", "budget", "budget", "budget"]
    assert p.metric("evenkeel_retries_suppressed_total", reason="budget") == 3


def test_budget_is_earned(proxy, origin):
    good = {"ok": True}
    u = origin(lambda x: x.reply(200) if good["ok"] else x.reply(503))
    p = proxy(**retry(budget={"ratio": 0.5, "reserve": 0, "min_per_second": 0, "window": "10s"}))
    for _ in range(4):
        p.get(u.url())
    good["ok"] = False
    # 5 requests have earned 2.5: two retries
    assert p.get(u.url()).attempts == 3
    assert p.get(u.url()).attempts <= 2


def test_budget_is_kept_per_origin(proxy, origin):
    a, b = origin(counted), origin(counted)
    p = proxy(**retry(budget={"ratio": 0, "reserve": 2, "min_per_second": 0, "window": "10s"}))
    assert [p.get(x.url()).attempts for x in (a, a, b, b)] == [3, 1, 3, 1]


def test_storm_is_bounded_by_the_default_budget(proxy, origin):
    u = origin(counted)
    p = proxy()
    for _ in range(100):
        p.get(u.url())
    # reserve 10, and 20 % of 100 requests
    assert 100 + 10 <= u.n <= 100 + 10 + 20 + 1


def test_delay_that_does_not_fit_the_deadline_is_not_slept(proxy, origin):
    u = origin(reply(503, b"now"), reply(200))
    p = proxy(defaults={"timeouts": {"total": "500ms"}, "retry": {"backoff": {"base": "2s", "max": "2s", "jitter": "none"}}})
    with took(0, 0.2):
        r = p.get(u.url())
    assert (r.status, r.body, u.n) == (503, b"now", 1) and p.access()["verdict"] == "deadline"
    assert p.metric("evenkeel_retries_suppressed_total", reason="deadline") == 1


# --- connections that the origin had closed already

# case G1
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_idle_connection_closed_by_the_origin(proxy, origin, method):
    def serve(conn):
        request = conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % conn.k)
        assert request
        conn.sleep(0.05)
    u = origin(on_connection=serve)
    p = proxy()
    with p.client() as c:
        assert c.fetch(method, u.url(), body=b"x").body == b"1"
        u.connections[0]
        time.sleep(0.12)
        r = c.fetch(method, u.url(), body=b"x")
        assert (r.status, r.body, r.attempts) == (200, b"2", 1)
    assert u.n == 2 and u.k == 2


def close_on_second(conn):
    """Takes the second request on a connection and closes without a byte of answer."""
    conn.read_request()
    conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    conn.read_request()


def test_connection_that_turns_out_stale_is_replaced_once(proxy, origin):
    u = origin(on_connection=close_on_second)
    p = proxy(**retry(max_attempts=1))
    with p.client() as c:
        assert c.get(u.url("/1")).status == 200
        r = c.get(u.url("/2"))
        assert r.status == 200 and r.attempts == 1
    assert u.targets == ["/1", "/2", "/2"] and u.k == 2


def test_stale_connection_is_not_replaced_for_post(proxy, origin):
    u = origin(on_connection=close_on_second)
    with proxy().client() as c:
        assert c.fetch("POST", u.url("/1"), body=b"x").status == 200
        problem(c.fetch("POST", u.url("/2"), body=b"x"), 502, "connection_terminated", verdict="method")
    assert u.targets == ["/1", "/2"]


# case G3
def test_all_idle_connections_stale_at_once(proxy, origin):
    go = threading.Event()

    def serve(conn):
        request = conn.read_request()
        if request and request.target.startswith("/warm"):
            conn.sleep(0.1)
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwarm")
            conn.read_request()
            return
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfresh")
    u = origin(on_connection=serve)
    p = proxy(**retry(max_attempts=1))
    clients = [p.client() for _ in range(10)]
    for c in clients:
        c.request("GET", u.url("/warm"))
    for c in clients:
        assert c.response().body == b"warm"
        c.close()
    go.set()
    r = p.get(u.url("/cold"))
    assert r.status == 200 and r.body == b"fresh" and u.n <= 12


# --- observe mode, hedging, breaker, rate limit

def test_observe_mode_says_which_limit_would_have_struck(proxy, origin):
    u = origin(delay(0.3, reply(200, b"in the end")))
    p = proxy(defaults={"mode": "observe", "timeouts": {"response_headers": "100ms"}})
    assert p.get(u.url()).body == b"in the end"
    assert [(line["upstream"], line["timeout"], line["limit_ms"]) for line in p.logs("observed")] == [("default", "response_headers", 100)]
    assert p.metric("evenkeel_timeouts_total", kind="response_headers", mode="observe") == 1


def test_observe_mode_only_counts(proxy, origin):
    u = origin(counted)
    p = proxy(defaults={"mode": "observe"})
    r = p.get(u.url())
    assert r.status == 503 and r.body == b"n=1" and u.n == 1
    assert p.metric("evenkeel_retries_total", mode="observe") >= 1


def test_observe_mode_cuts_nothing(proxy, origin):
    u = origin(delay(0.4, reply(200, b"slow")))
    p = proxy(defaults={"mode": "observe", "timeouts": {"total": "200ms"}})
    assert p.get(u.url()).body == b"slow"
    assert p.metric("evenkeel_timeouts_total", mode="observe", kind="total") == 1


def test_hedge_wins(proxy, origin):
    def step(x):
        if x.n == 1:
            x.hold()
        x.reply(200, b"second")
    u = origin(step)
    p = proxy(defaults={"hedge": {"after": "100ms", "max": 1}})
    with p.no_leak():
        with took(0.1, 0.25):
            r = p.get(u.url())
        assert r.body == b"second" and u.n == 2
        u.connections[0].wait_ended(0.5)
    assert (p.metric("evenkeel_hedges_total", won="true"), p.metric("evenkeel_hedges_total", won="false")) == (1, 0)
    assert [(line["upstream"], line["attempt"], line["after_ms"], line["id"]) for line in p.logs("hedge")] == [
        ("default", 2, 100, r.header("X-Request-Id"))]


def test_hedge_not_for_post_nor_for_quick_answers(proxy, origin):
    u = origin(delay(0.2, reply(200, b"x")))
    p = proxy(defaults={"hedge": {"after": "50ms", "max": 1}})
    assert p.fetch("POST", u.url(), body=b"x").status == 200
    assert u.n == 1
    v = origin(reply(200))
    assert p.get(v.url()).status == 200
    time.sleep(0.1)
    assert v.n == 1


def test_retry_after_of_an_open_breaker_is_what_is_left(proxy, origin):
    u = origin(reply(503, b"no"))
    p = proxy(defaults={"retry": {"max_attempts": 1}, "breaker": {"consecutive": 1, "open_for": "20s"}})
    assert p.get(u.url()).body == b"no"
    r = p.get(u.url())
    problem(r, 503, "destination_unavailable", verdict="breaker")
    assert 15 <= int(r.header("Retry-After")) <= 20


def test_breaker_opens_and_closes(proxy, origin):
    good = {"ok": False}
    u = origin(lambda x: x.reply(200, b"ok") if good["ok"] else x.reply(503, b"no"))
    p = proxy(defaults={"retry": {"max_attempts": 1},
                        "breaker": {"failure_ratio": "50%", "min_requests": 100, "consecutive": 3, "window": "10s",
                                    "open_for": "300ms", "half_open": 1}})
    assert [p.get(u.url()).body for _ in range(3)] == [b"no"] * 3
    assert p.metric("evenkeel_breaker_state", upstream="default") == 2
    with took(0, 0.1):
        r = p.get(u.url())
    body = problem(r, 503, "destination_unavailable", verdict="breaker")
    assert int(r.header("Retry-After")) >= 1 and u.n == 3 and body["upstream"] == "default"
    good["ok"] = True
    time.sleep(0.35)
    assert p.get(u.url()).body == b"ok"
    assert p.metric("evenkeel_breaker_state", upstream="default") == 0
    assert p.get(u.url()).body == b"ok"
    p.wait_log("breaker", 3)
    assert [(line["from"], line["to"], line["upstream"], line["port"]) for line in p.logs("breaker")] == [
        ("closed", "open", "default", u.port), ("open", "half_open", "default", u.port), ("half_open", "closed", "default", u.port)]


def test_a_stale_connection_is_replaced_within_the_same_place_of_the_rate(proxy, origin):
    u = origin(reply(200), rst(), reply(200, b"fresh"))
    p = proxy(defaults={"rate_limit": {"per_second": 0.2, "burst": 2}})
    with p.client() as c:
        assert c.get(u.url()).status == 200
        r = c.get(u.url())
        assert (r.status, r.body, r.header("Evenkeel-Attempts")) == (200, b"fresh", "1") and u.n == 3
    assert p.metric("evenkeel_pool_rejected_total", reason="rate_limit") == 0


def test_rate_limit_waits_then_refuses(proxy, origin):
    u = origin(reply(200))
    p = proxy(defaults={"rate_limit": {"per_second": 10, "burst": 1}, "timeouts": {"pool_wait": "250ms"}})
    clients = [p.client() for _ in range(6)]
    for c in clients:
        c.request("GET", u.url())
    answers = [c.response() for c in clients]
    assert 3 <= [r.status for r in answers].count(200) <= 4
    refused = [r for r in answers if r.status != 200]
    for r in refused:
        problem(r, 503, "connection_limit_reached")
        assert int(r.header("Retry-After")) >= 1
    assert p.metric("evenkeel_pool_rejected_total", reason="rate_limit") == len(refused)
    for c in clients:
        c.close()
