"""A body that breaks off never looks complete: not to a 1.1 client, not to a 1.0 client, whatever its framing, held back or not."""
import subprocess

import pytest

from harness import Incomplete, problem, reply
from harness.proxy import environment

LONG = b"z" * 200_000   # more than is ever held back
SHORT = b"z" * 1_000

FRAMINGS = {
    "length": lambda body: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body) + 10, body),
    "length, one byte short": lambda body: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body) + 1, body),
    "in a chunk": lambda body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b" % (len(body) + 10, body),
    "after a chunk": lambda body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body),
    "in a chunk's size": lambda body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n1" % (len(body), body),
    "in the last chunk": lambda body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(body), body),
    "in the trailers": lambda body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nX-T: 1\r\n" % (len(body), body),
    "1.0, length": lambda body: b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body) + 10, body),
    "until close": lambda body: b"HTTP/1.1 200 OK\r\n\r\n%b" % body,
    "1.0, until close": lambda body: b"HTTP/1.0 200 OK\r\n\r\n%b" % body,
}
# Each framing broken off by FIN and by RST; but FIN is how a body without framing ends.
BREAKS = [(framing, how) for framing in FRAMINGS for how in ("close", "reset") if "until close" not in framing or how == "reset"]
HELD = ["length", "length, one byte short", "1.0, length"]  # what has a length, and a small one
ONCE = {"defaults": {"retry": {"max_attempts": 1}}}


def breaks_off(data, how):
    """Sends data and ends the connection: close (FIN; over TLS without close_notify), reset, or shut (close_notify and FIN)."""
    def step(x):
        x.send(data)
        x.sleep(0.02)
        if how == "shut":
            x.connection.socket.unwrap()
        getattr(x, "reset" if how == "reset" else "close")()
    return step


def assert_broken(p, url, version="HTTP/1.1", method="GET", body=b"z"):
    """The client sees the status and what there was, and then that it isn't all."""
    with p.client() as c:
        with pytest.raises(Incomplete) as broken:
            c.request(method, url, version=version, body=None if method == "GET" else b"x").response()
        r = broken.value.response
        assert r.status == 200 and set(r.body) <= set(body)
        if r.header("Content-Length") is None and r.header("Transfer-Encoding") is None:
            assert broken.value.how == "reset", "a plain end would be the end of the body"
        return r


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("framing,how", BREAKS)
def test_passed_on(proxy, origin, framing, how, version):
    """Too long to be held back: the client has part of it when it breaks."""
    data = FRAMINGS[framing](LONG)
    u = origin(breaks_off(data, how))
    p = proxy()
    r = assert_broken(p, u.url(), version)
    assert u.n == 1 and p.access()["error"], "nothing is repeated, and the log says what came of it"
    if how == "close":  # what arrived before a reset may be lost in the kernels
        assert len(r.body) >= len(LONG) - 1
    assert p.access()["attempts"] == 1
    p.wait_metric("evenkeel_attempts_total", 1, outcome="incomplete_body")


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("framing", HELD)
def test_held_back(proxy, origin, framing, how):
    """Short enough to be held back: the client gets an error, or the whole of another attempt, and never a part."""
    data = FRAMINGS[framing](SHORT)
    u = origin(breaks_off(data, how), breaks_off(data, how), reply(200, b"whole"))
    p = proxy()
    r = p.get(u.url())
    assert (r.status, r.body, r.attempts) == (200, b"whole", 3)
    assert p.metric("evenkeel_retries_total", reason="incomplete_body") == 2


@pytest.mark.parametrize("framing", HELD)
def test_held_back_each_time(proxy, origin, framing):
    u = origin(breaks_off(FRAMINGS[framing](SHORT), "reset"))
    p = proxy()
    problem(p.get(u.url()), 502, "http_response_incomplete", attempts=3, verdict="attempts")


def test_short_body_without_length_is_passed_on_and_breaks(proxy, origin):
    """Only a length says beforehand that a body is short: others are passed on as they come."""
    p = proxy()
    for framing, how in BREAKS:
        if framing not in HELD and framing != "1.0, length":
            u = origin(breaks_off(FRAMINGS[framing](SHORT), how))
            r = assert_broken(p, u.url())
            assert r.body == SHORT and u.n == 1, (framing, how)


def test_of_a_status_that_is_repeated(proxy, origin):
    """Held back whatever its framing, since it may be repeated: broken bodies of a 503 lead to further attempts."""
    p = proxy(defaults={"retry": {"budget": "off"}})
    for framing, how in BREAKS:
        data = FRAMINGS[framing](SHORT).replace(b" 200 OK", b" 503 No")
        u = origin(breaks_off(data, how), breaks_off(data, how), reply(200, b"whole"))
        r = p.get(u.url())
        assert (r.status, r.body, r.attempts) == (200, b"whole", 3), (framing, how)


def test_last_answer_of_a_repeated_status_broken(proxy, origin):
    p = proxy(defaults={"retry": {"budget": "off", "max_attempts": 2}})
    for framing, how in BREAKS:
        u = origin(breaks_off(FRAMINGS[framing](SHORT).replace(b" 200 OK", b" 503 No"), how))
        with p.client() as c:
            try:
                problem(c.get(u.url()), 502, "http_response_incomplete", attempts=2)
            except Incomplete as broken:
                assert broken.response.status == 503
        assert u.n == 2, (framing, how)


@pytest.mark.parametrize("framing,how", [(f, h) for f, h in BREAKS if f in ("length", "after a chunk", "until close")])
def test_of_a_request_that_may_not_be_repeated(proxy, origin, framing, how):
    u = origin(breaks_off(FRAMINGS[framing](SHORT), how))
    p = proxy()
    with p.client() as c:
        try:
            r = c.fetch("POST", u.url(), body=b"x")
            problem(r, 502, "http_response_incomplete")
        except Incomplete as broken:
            assert broken.response.status == 200
    assert u.n == 1


@pytest.mark.parametrize("how", ["close", "reset", "shut"])
@pytest.mark.parametrize("size", ["short", "long"])
@pytest.mark.parametrize("framing", ["length", "after a chunk", "in the last chunk", "until close"])
def test_over_tls(proxy, origin, authority, framing, size, how):
    """An end of TLS that isn't said by close_notify may be anybody's doing: it ends no body."""
    body = SHORT if size == "short" else LONG
    u = origin(breaks_off(FRAMINGS[framing](body), how), tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"]}, "tls": {"originate": "on", "ca_file": authority.ca}}], **ONCE)
    if framing == "until close" and how == "shut":
        assert p.get(u.url()).body == body, "said by close_notify it is the end"
    elif size == "short":
        r = None
        with p.client() as c:
            try:
                r = c.get(u.url())
            except Incomplete as broken:
                assert broken.response.status == 200
        if r is not None:
            problem(r, 502, "http_response_incomplete")
    else:
        assert_broken(p, u.url())
        assert_broken(p, u.url(), "HTTP/1.0")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_complete_body_before_a_bad_end_of_tls_is_complete(proxy, origin, authority, framing):
    data = {"length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(LONG), LONG),
            "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LONG), LONG)}[framing]
    u = origin(breaks_off(data, "close"), tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"]}, "tls": {"originate": "on", "ca_file": authority.ca}}])
    with p.client() as c:
        assert c.get(u.url()).body == LONG and c.get(u.url()).body == LONG
    assert u.k == 2


@pytest.mark.parametrize("framing,code", [("length", 18), ("after a chunk", 18), ("until close", 56), ("1.0, length", 18)])
def test_curl_notices(proxy, origin, framing, code):
    u = origin(breaks_off(FRAMINGS[framing](LONG), "reset"))
    p = proxy()
    for more in ([], ["-0"]):
        out = subprocess.run(["curl", "-sS", *more, "-o", "/dev/null", "-x", p.url, u.url()], capture_output=True, text=True, timeout=10,
                             env=environment())
        assert out.returncode in (code, 18, 56), out


def test_drain_that_cuts_a_response_breaks_it(proxy, origin):
    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%b\r\n" % (len(LONG), LONG))
        x.hold()
    u = origin(step)
    for version in ("HTTP/1.1", "HTTP/1.0"):
        p = proxy(drain={"timeout": "100ms"})
        with p.client() as c:
            head = c.request("GET", u.url(), version=version).head()
            p.term()
            with pytest.raises(Incomplete) as broken:
                c.body(head)
            assert head.framing == "chunked" or broken.value.how == "reset"
        assert p.wait_exit() == 3


def test_timeout_in_the_middle_breaks_it(proxy, origin):
    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\n\r\n" + LONG)
        x.hold()
    u = origin(step)
    p = proxy(defaults={"timeouts": {"body_idle": "150ms"}})
    for version in ("HTTP/1.1", "HTTP/1.0"):
        assert_broken(p, u.url(), version)
