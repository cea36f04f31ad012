"""Requests that are broken, ambiguous or meant to smuggle: refused, or passed on in exactly one reading."""
import time

import pytest

from harness import Incomplete, problem, reply


def head(u, *lines, method="POST", path="/x", host=True):
    target = u.url(path)
    return "\r\n".join([f"{method} {target} HTTP/1.1", *([f"Host: {u.authority}"] if host else []), *lines]) + "\r\n\r\n"


def smuggled(u):
    return f"GET {u.url('/smuggled')} HTTP/1.1\r\nHost: {u.authority}\r\n\r\n"


def assert_refused(p, u, data, status=(400,), n=0):
    """A 4xx, the connection closed after it, nothing at the origin, and the proxy well afterwards."""
    with p.client() as c:
        c.send(data)
        r = c.response()
        assert r.status in status, r
        problem(r, r.status, "http_request_error")
        assert (r.header("Connection") or "").lower() == "close"
        assert c.closed()
    assert u.n == n and b"smuggled" not in u.received()
    assert p.get(u.url("/well")).status == 200
    assert u.targets[-1] == "/well"


# case B1
@pytest.mark.parametrize("method", ["HEAD", "TRACE", "GET", "DELETE", "BREW", "OPTIONS"])
def test_body_of_any_method_is_never_a_request(proxy, origin, method):
    u = origin(lambda x: x.reply(200, b""))
    inner = smuggled(u)
    p = proxy()
    with p.client() as c:
        c.send(head(u, f"Content-Length: {len(inner)}", method=method) + inner)
        r = c.response(method)
        assert r.status in (200, 400, 501)
        assert c.silent(0.1) or c.closed()
    assert [q.target for q in u.requests] in ([], ["/x"])
    if u.n:
        assert u.requests[0].body in (b"", inner.encode())


# case B3
@pytest.mark.parametrize("lines", [["Content-Length: 3", "Transfer-Encoding: chunked"],
                                   ["Transfer-Encoding: chunked", "Content-Length: 3"],
                                   ["Transfer-Encoding: chunked", "Content-Length: 0"],
                                   ["transfer-encoding: Chunked", "content-length: 5"]])
def test_length_and_chunked(proxy, origin, lines):
    u = origin(reply(200))
    p = proxy()
    assert_refused(p, u, head(u, *lines) + "0\r\n\r\n" + smuggled(u))


@pytest.mark.parametrize("coding", ["xchunked", "chunked, identity", "identity", "gzip", "chunked, chunked", "gzip, chunked, gzip", "",
                                    "chunked;q=1", "\x0bchunked", "chunked\x00", "'chunked'", '"chunked"'])
def test_transfer_coding_that_is_not_chunked(proxy, origin, coding):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, f"Transfer-Encoding: {coding}") + "0\r\n\r\n" + smuggled(u), status=(400, 501))


def test_two_transfer_encoding_fields(proxy, origin):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + "0\r\n\r\n" + smuggled(u),
                   status=(400, 501))


@pytest.mark.parametrize("line", ["Content-Length : 5", "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked",
                                  "Content-Length\x00: 5", " Content-Length: 5", "Content-Length\x0b: 5", "Content_Length: 5\x01"])
def test_disguised_framing_fields(proxy, origin, line):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, line) + "hello" + smuggled(u))


# case B5
@pytest.mark.parametrize("value", ["+5", "-5", "0x5", "5_0", "5 5", "", "5,6", "5;", "5.0", "five", "18446744073709551617",
                                   "99999999999999999999999", "9223372036854775808", "\xb2"])
def test_content_length_syntax(proxy, origin, value):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, f"Content-Length: {value}") + "hello", status=(400, 413))


def test_two_different_lengths(proxy, origin):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, "Content-Length: 5", "Content-Length: 6") + "hello")


@pytest.mark.parametrize("lines", [["Content-Length: 5", "Content-Length: 5"], ["Content-Length: 5, 5"]])
def test_two_equal_lengths(proxy, origin, lines):
    u = origin(lambda x: x.reply(200, x.request.body))
    with proxy().client() as c:
        c.send(head(u, *lines) + "hello")
        r = c.response()
    if r.status == 400:
        assert u.n == 0
    else:
        assert r.body == b"hello" and u.requests[0].all("Content-Length") == ["5"]


@pytest.mark.parametrize("value", ["5", "  5", " 5  ", "5 "])
def test_length_with_spaces_around_it(proxy, origin, value):
    u = origin(lambda x: x.reply(200, x.request.body))
    with proxy().client() as c:
        c.send(head(u, f"Content-Length:{value}") + "hello")
        assert c.response().body == b"hello"


# case B7
@pytest.mark.parametrize("size", ["0x5", "+5", "-0", " 5", "5zz", "", "FFFFFFFFFFFFFFFFF", "5\n", "5 5", "g", "5\x00", "-5", "_5"])
def test_chunk_size_syntax(proxy, origin, size):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        c.send(head(u, "Transfer-Encoding: chunked") + f"{size}\r\nhello\r\n0\r\n\r\n" + smuggled(u))
        try:
            assert c.response().status == 400
            assert c.closed()
        except Incomplete:
            pass
    assert b"smuggled" not in u.received()
    assert not any(q.complete for q in u.requests), "no last chunk may have been sent"
    assert u.n <= 1


@pytest.mark.parametrize("data", ["5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\nhello\n0\n\n", "5\r\nhello\r\n0\r\nX\r\n\r\n",
                                  "5\rhello\r\n0\r\n\r\n"])
def test_chunk_framing(proxy, origin, data):
    u = origin(reply(200))
    with proxy().client() as c:
        c.send(head(u, "Transfer-Encoding: chunked") + data + smuggled(u))
        try:
            assert c.response().status == 400
        except Incomplete:
            pass
    assert b"smuggled" not in u.received() and not any(q.complete for q in u.requests)


def test_bad_chunk_after_a_streamed_prefix_is_not_repeated(proxy, origin):
    u = origin(reply(200))
    p = proxy(limits={"request_buffer": 0})
    with p.client() as c:
        c.send(head(u, "Transfer-Encoding: chunked", method="PUT") + "5\r\nhello\r\n")
        u.wait(n=1)
        c.send("zz\r\n")
        try:
            assert c.response().status == 400
        except Incomplete:
            pass
    time.sleep(0.05)
    assert u.n == 1 and not u.requests[0].complete


def test_endless_trailers(proxy, origin):
    u = origin(reply(200))
    p = proxy(limits={"header_bytes": "8KiB"})
    with p.client() as c:
        try:
            c.send(head(u, "Transfer-Encoding: chunked") + "0\r\n")
            for i in range(2000):
                c.send(f"X-{i}: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
        except OSError:
            pass
        try:
            assert c.response().status == 400
        except Incomplete:
            pass
    assert p.rss() < 200e6


# case B11
@pytest.mark.parametrize("line", [": value", "no colon", "na me: x", "n\x01: x", "n\x7f: x", "n(: x", "\xe9: x", "a: b\r c", "a: \x00b",
                                  "a: b\x00", "@: x", "a,b: x", "[a]: x", "a: b\x08"])
def test_field_names_and_values(proxy, origin, line):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        c.send(head(u, line, "X-After: 1", method="GET"))
        r = c.response()
        assert r.status == 400, line
        assert c.closed()
    assert u.n == 0


def test_folded_field(proxy, origin):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, "X-A: 1", " folded", method="GET"))
    v = origin(reply(200))
    assert_refused(proxy(), v, f"GET {v.url()} HTTP/1.1\r\n Host: x\r\n\r\n")


@pytest.mark.parametrize("data", ["GET {t} HTTP/1.1\nHost: x\n\n", "GET {t} HTTP/1.1\r\nHost: x\n\r\n", "GET {t} HTTP/1.1\rHost: x\r\r",
                                  "GET {t} HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n", "GET {t} HTTP/1.1\r\nHost: x\r\n\n"])
def test_bare_line_ends(proxy, origin, data):
    u = origin(reply(200))
    p = proxy(client={"header_timeout": "500ms"})
    with p.client() as c:
        c.send(data.replace("{t}", u.url()))
        assert c.response().status == (400 if "\n" in data else 408)  # without any line end it is a line that goes on
    assert u.n == 0


@pytest.mark.parametrize("lines", [["Host: a", "Host: b"], ["Host: a", "host: a"], ["Host: a b"], ["Host: a/b"], ["Host: a@b"],
                                   ["Host: [::1"], ["Host: a:b"], ["Host: a,b"]])
def test_bad_host(proxy, origin, lines):
    u = origin(reply(200))
    assert_refused(proxy(), u, head(u, *lines, method="GET", host=False))


# case B13
@pytest.mark.parametrize("version", ["HTTP/1.32", "HTTP/2.0", "http/1.1", "HTTP/1.1x", "HTTP/0.9", "HTTP/11", "HTTP/1.", "HTTP/ 1.1",
                                     "HTTP/1,1", "HTTP/3.0", "ICY/1.1", "HTTPS/1.1", "", "HTTP/1.1 x", "HTTP/+1.1", "HTTP/01.1"])
def test_versions(proxy, origin, version):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        c.send(f"GET {u.url()} {version}\r\nHost: {u.authority}\r\n\r\n")
        r = c.response()
        assert r.status in (400, 505) and r.version in ("HTTP/1.1", "HTTP/1.0")
        assert c.closed()
    assert u.n == 0


def test_http_1_2_is_served_as_1_1(proxy, origin):
    u = origin(reply(200))
    with proxy().client() as c:
        r = c.request("GET", u.url(), version="HTTP/1.2").response()
        assert r.version == "HTTP/1.1" and r.status == 200


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
                                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 20, b"GET /\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"SSH-2.0-x\r\n",
                                  b"GET\r\n\r\n", b" GET http://a/ HTTP/1.1\r\n\r\n", b"G\xcbT http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                                  b"GET  http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", b"GET\thttp://a/\tHTTP/1.1\r\nHost: a\r\n\r\n"],
                         ids=range(10))
def test_other_protocols(proxy, origin, data):
    u = origin(reply(200))
    p = proxy(client={"header_timeout": "500ms"})
    with p.client() as c:
        c.send(data)
        answer = c.rest()
    assert answer == b"" or answer.split(b"\r\n")[0].split(b" ")[1] in (b"400", b"405", b"501", b"505", b"408")
    assert p.get(u.url()).status == 200


def test_empty_lines_before_a_request_are_skipped(proxy, origin):
    u = origin(reply(200))
    with proxy().client() as c:
        c.send("\r\n\r\n" + head(u, method="GET"))
        assert c.response().status == 200


def test_endless_empty_lines(proxy):
    p = proxy(client={"header_timeout": "500ms"})
    with p.client() as c:
        try:
            for _ in range(200):
                c.send("\r\n" * 1000)
        except OSError:
            pass
        c.rest()
    assert p.rss() < 200e6


# case L5
def test_too_large_header_section(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        try:
            c.send(head(u, *[f"X-{i}: {'a' * 100}" for i in range(10000)], method="GET"))
        except OSError:
            pass
        problem(c.response(), 431, "http_request_error")
    assert u.n == 0 and p.get(u.url()).status == 200 and p.rss() < 200e6


def test_too_long_line(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        try:
            c.send(head(u, "X: " + "a" * 1048576, method="GET"))
        except OSError:
            pass
        problem(c.response(), 431, "http_request_error")
    assert u.n == 0


def test_too_long_target(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        try:
            c.send(head(u, method="GET", path="/" + "a" * 1048576))
        except OSError:
            pass
        problem(c.response(), 414, "http_request_error")
    assert u.n == 0


def test_header_section_just_under_the_limit(proxy, origin):
    u = origin(reply(200))
    r = proxy().get(u.url(), [("X", "a" * 60000)])
    assert r.status == 200 and u.requests[0].header("X") == "a" * 60000


# case L9
def test_late_bytes_do_not_destroy_the_answer(proxy, origin):
    u = origin(reply(200, b"answer"))
    with proxy().client() as c:
        c.send(head(u, "Content-Length: 5", "Connection: close") + "hello" + "late")
        r = c.response()
        assert r.status == 200 and r.body == b"answer"
        time.sleep(0.05)
    with proxy().client() as c:
        c.send("GET bad HTTP/1.1\r\nHost: x\r\n\r\n" + "x" * 300000)
        assert c.response().status == 400


def test_head_gets_no_error_body(proxy):
    p = proxy()
    with p.client() as c:
        r = c.fetch("HEAD", "/p", host=f"127.0.0.1:{p.port}")
        problem(r, 400, "http_request_error", head=True)
        assert c.buffer == b""


def test_refusals_are_counted_under_a_dash(proxy):
    p = proxy()
    with p.client() as c:
        c.send("GET bad HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response().status == 400
    p.wait_metric("evenkeel_requests_total", 1, upstream="-", code="400")


def test_random_bytes(proxy, origin):
    import random
    u = origin(reply(200))
    p = proxy(client={"header_timeout": "300ms"})
    rng = random.Random(7)
    good = head(u, "Content-Length: 5", "X-A: b").encode() + b"hello"
    for _ in range(150):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            what = rng.random()
            at = rng.randrange(len(data))
            if what < 0.5:
                data[at] = rng.randrange(256)
            elif what < 0.75:
                del data[at]
            else:
                data.insert(at, rng.choice(b"\r\n\0 :;,\t/#[]"))
        with p.client() as c:
            try:
                c.send(bytes(data))
                c.shut()
                c.rest()
            except OSError:
                pass
    assert p.get(u.url("/well")).status == 200


def test_the_end_of_the_connection_is_announced_for_a_broken_body(proxy, origin):
    u = origin(reply(200))
    with proxy().client() as c:
        c.send(head(u, "Transfer-Encoding: chunked") + "3\r\nabc\r\nzz\r\n")
        r = c.response()
        problem(r, 400, "http_request_error")
        assert r.header("Connection") == "close" and c.closed()
    assert not u.requests or not u.requests[0].complete
