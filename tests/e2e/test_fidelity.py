"""Exact bytes on both sides: nothing is re-spelt, invented, lost or moved."""
import gzip
import random
import re
import threading

import pytest

from harness import Client, close, free_port, raw, reply, took

ID = rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def sent(u, n=0):
    """The request's head as the origin got it, with the two values that differ from run to run named."""
    head = re.sub(rb"(?m)^(Via: .*1\.1 evenkeel) \([0-9a-f]+\)\r$", rb"\1 (ID)\r", u.requests[n].head)
    return re.sub(rb"X-Request-Id: " + ID, b"X-Request-Id: ID", head)


def talk(p, data, method="GET", n=1):
    """Sends bytes and gives back the bytes of n whole responses."""
    with p.client() as c:
        c.send(data)
        got = bytearray()
        fill = c.fill

        def keep():
            before = len(c.buffer)
            more = fill()
            got.extend(c.buffer[before:])
            return more
        c.fill = keep
        for _ in range(n):
            c.response(method)
        assert c.buffer == b"", c.buffer
    return bytes(got)


def came(data, attempts=1, upstream="default"):
    """The response's bytes without what the proxy adds, each of which must be there exactly once."""
    for line in (rb"Via: 1\.1 evenkeel \([0-9a-f]+\)", rb"Evenkeel-Attempts: %d" % attempts,
                 rb"Evenkeel-Upstream: " + upstream.encode(), rb"X-Request-Id: " + ID):
        data, n = re.subn(rb"(?m)^" + line + rb"\r\n", b"", data)
        assert n == 1, (n, line, data)
    return data


OURS = b"Via: 1.1 evenkeel (ID)\r\nX-Request-Id: ID\r\n"


def lines(u, method="GET", target=None, more=b"", version="HTTP/1.1", host=None):
    return f"{method} {target or u.url('/x')} {version}\r\nHost: {host or u.authority}\r\n".encode("latin-1") + more + b"\r\n"


# --- requests

def test_field_lines_cross_byte_for_byte(proxy, origin):
    odd = (b"x-LOWER-upper: v\r\nNoSpace:v\r\nWide:   \t v  w \t \r\nEmpty:\r\nBlank:  \r\nDup: 1\r\nx-between: b\r\nDUP: 2\r\n"
           b"Quoted: \"a, b\";q=\"\\\"\"\r\nHigh: \xe4\xf6\xff\r\n!#$%&'*+-.^_`|~09: token\r\nCookie: a=1; b=2\r\nCookie: c=3\r\n"
           b"User-Agent: t\r\nAccept-Encoding: br;q=1.0, gzip;q=0.8, *;q=0.1\r\nDate: yesterday\r\nPragma: no-cache\r\n"
           b"Cache-Control: only-if-cached\r\nRange: bytes=0-1\r\nIf-Match: \"x\"\r\nMax-Forwards: 7\r\nForwarded: for=1.2.3.4\r\n"
           b"X-Forwarded-For: 1.2.3.4\r\nAuthorization: Bearer abc\r\n")
    u = origin(reply(200))
    talk(proxy(), lines(u, more=odd))
    assert sent(u) == b"GET /x HTTP/1.1\r\nHost: " + u.authority.encode() + b"\r\n" + odd + OURS + b"\r\n"


@pytest.mark.parametrize("path", ["/", "/?", "/?&&=", "/?a=%zz&b=%", "/?a+b%20c%2F", "//", "//x///y", "/a/../b/./c", "/%2e%2e/%2E/x",
                                  "/%63%7E~", "/;p=1;q", "/a?b?c?d", "/a?x=http://y/z", "/:@!$&'()*+,;=", "/%00%0d%0a", "/a%",
                                  "/\xff\xfe?\xe9", "/%E4%BD%A0?%e4%bd%a0", "/a|b\"<>\\^`{}?[]", "/~user/", "/" + "x" * 30000])
def test_path_and_query_are_never_touched(proxy, origin, path):
    u = origin(reply(200))
    talk(proxy(), lines(u, target=u.url(path)))
    assert sent(u).startswith(b"GET " + path.encode("latin-1") + b" HTTP/1.1\r\nHost: ")


@pytest.mark.parametrize("method,path,gives", [("GET", "", "/"), ("GET", "?q=1", "/?q=1"), ("POST", "?", "/?"), ("OPTIONS", "", "*"),
                                               ("OPTIONS", "/", "/"), ("OPTIONS", "?x", "/?x"), ("HEAD", "", "/")])
def test_empty_path(proxy, origin, method, path, gives):
    u = origin(reply(200))
    talk(proxy(), lines(u, method, f"http://{u.authority}{path}"), method)
    assert u.targets == [gives]


def test_asterisk_inside_a_tunnel_and_on_a_local_port(proxy, origin):
    u = origin(reply(200))
    p = proxy(upstreams=[{"name": "o", "match": {"hosts": ["127.0.0.1"]}, "port": u.port, "listen": "127.0.0.1:0"}])
    with p.client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("CONNECT").status == 200
        c.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("OPTIONS").status == 200
    with Client(p.upstream_address("o")) as c:
        c.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("OPTIONS").status == 200
    assert u.targets == ["*", "*"]


@pytest.mark.parametrize("spelling,gives", [("127.0.0.1:{p}", "127.0.0.1:{p}"), ("LocalHost:{p}", "LocalHost:{p}"),
                                            ("localhost.:{p}", "localhost.:{p}"), ("joe:pw@127.0.0.1:{p}", "127.0.0.1:{p}"),
                                            ("joe@127.0.0.1:{p}", "127.0.0.1:{p}"), ("%6A:%40@127.0.0.1:{p}", "127.0.0.1:{p}")])
def test_host_is_rebuilt_from_the_target(proxy, origin, spelling, gives):
    u = origin(reply(200))
    p = proxy()
    spelling, gives = spelling.format(p=u.port), gives.format(p=u.port)
    talk(p, f"GET http://{spelling}/x HTTP/1.1\r\nHost: other.example:99\r\nX: 1\r\n\r\n".encode())
    assert sent(u) == f"GET /x HTTP/1.1\r\nHost: {gives}\r\nX: 1\r\n".encode() + OURS + b"\r\n"


def test_host_without_a_port_for_the_usual_one(proxy, dns):
    d = dns({"plain.test": {"A": ["127.0.0.9"]}})
    p = proxy(dns=d.policy, defaults={"retry": {"max_attempts": 1}})
    r = p.get("http://plain.test/")  # nobody listens on port 80 there: that it was tried is told by the error
    assert r.status == 502 and "127.0.0.9:80" in r.json()["detail"]


def test_userinfo_is_dropped_and_never_logged(proxy, origin):
    u = origin(reply(200), close())
    p = proxy(log={"level": "debug"}, defaults={"retry": {"max_attempts": 1}})
    secret = f"http://joe:hunter2@{u.authority}/x?q=1"
    assert p.fetch("GET", secret, host=u.authority).status == 200
    r = p.fetch("GET", secret, host=u.authority)
    assert r.status == 502 and "hunter2" not in r.text
    refused = p.fetch("GET", f"http://joe:hunter2@127.0.0.1:{free_port()}/", host="x")
    assert refused.status == 502 and "hunter2" not in refused.text
    bad = p.fetch("GET", "http://joe:hunter2@[zz]/", host="x")
    assert bad.status == 400 and "hunter2" not in bad.text
    tunnel = p.fetch("CONNECT", "joe:hunter2@h:443", host="x")
    assert tunnel.status == 400 and "hunter2" not in tunnel.text
    p.access(5)
    assert "hunter2" not in str(p.lines) and "joe" not in str(p.lines)
    assert b"hunter2" not in u.received() and b"Authorization" not in u.received()


def test_credentials_are_never_logged(proxy, origin):
    u = origin(reply(200, headers=[("Set-Cookie", "sid=tell-nobody-1")]), close())
    p = proxy(log={"level": "debug"})
    for _ in range(2):
        p.get(u.url("/"), [("Authorization", "Bearer tell-nobody-2"), ("Cookie", "c=tell-nobody-3"),
                           ("Proxy-Authorization", "Basic tell-nobody-4")])
    p.access(2)
    assert "tell-nobody" not in str(p.lines)
    assert b"Bearer tell-nobody-2" in u.received() and b"tell-nobody-4" not in u.received()


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PUT", "OPTIONS", "PATCH"])
def test_no_framing_is_invented_for_a_request_without_body(proxy, origin, method):
    u = origin(reply(200))
    talk(proxy(), lines(u, method), method)
    assert sent(u) == f"{method} /x HTTP/1.1\r\nHost: {u.authority}\r\n".encode() + OURS + b"\r\n"


def test_a_length_of_nothing_is_kept(proxy, origin):
    u = origin(reply(200))
    talk(proxy(), lines(u, "POST", more=b"content-LENGTH:  0\r\n"))
    assert sent(u) == b"POST /x HTTP/1.1\r\nHost: " + u.authority.encode() + b"\r\ncontent-LENGTH:  0\r\n" + OURS + b"\r\n"


def test_body_with_a_length_crosses_with_its_own_field(proxy, origin):
    u = origin(reply(200))
    talk(proxy(), lines(u, "PUT", more=b"A: 1\r\ncontent-length:5\r\nContent-Type: x/y\r\nB: 2\r\n") + b"\0\xff\r\n\n")
    assert u.received().endswith(b"\r\n\r\n\0\xff\r\n\n")
    assert b"\r\nA: 1\r\ncontent-length:5\r\nContent-Type: x/y\r\nB: 2\r\n" in sent(u)
    assert b"chunked" not in sent(u).lower()


def test_chunked_request_stays_chunked_on_the_wire(proxy, origin):
    u = origin(reply(200))
    talk(proxy(), lines(u, "PUT", more=b"Transfer-Encoding:\tchunked\r\nX: 1\r\n")
         + b"5;ext=\"v\"\r\nhello\r\n006\r\n world\r\n0;last\r\nX-Sum: 9\r\nhost: evil\r\nTransfer-Encoding: x\r\nx-two:  b\r\n\r\n")
    assert sent(u) == (b"PUT /x HTTP/1.1\r\nHost: " + u.authority.encode() + b"\r\nX: 1\r\n" + OURS
                       + b"Transfer-Encoding: chunked\r\n\r\n")
    assert u.requests[0].body == b"hello world" and u.requests[0].trailers == [("X-Sum", "9"), ("x-two", "b")]
    assert u.received().endswith(b"0\r\nX-Sum: 9\r\nx-two:  b\r\n\r\n")


def test_http_1_0_request_becomes_1_1_with_a_host(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        c.send(f"POST {u.url('/old')} HTTP/1.0\r\nContent-Length: 2\r\nX: 1\r\n\r\nab")
        r = c.response()
        assert r.status == 200 and c.closed()
    assert sent(u) == b"POST /old HTTP/1.1\r\nHost: " + u.authority.encode() + b"\r\nContent-Length: 2\r\nX: 1\r\n" + OURS + b"\r\n"


def test_via_of_others_stays_and_ours_comes_last(proxy, origin):
    u = origin(reply(200, headers=[("Via", "1.0 far"), ("Via", "1.1 near (x)")]))
    got = talk(proxy(), lines(u, more=b"Via: 1.0 fred, 1.1 p.example\r\nVia: 2 evenkeel (0123456789ab)\r\n"))
    assert re.search(rb"\r\nVia: 1.0 fred, 1.1 p.example\r\nVia: 2 evenkeel \(0123456789ab\)\r\nVia: 1.1 evenkeel \([0-9a-f]+\)\r\n",
                     u.requests[0].head)
    assert re.search(rb"\r\nVia: 1.0 far\r\nVia: 1.1 near \(x\)\r\n(.*\r\n)*Via: 1.1 evenkeel \([0-9a-f]+\)\r\n", got)


def test_named_and_hop_by_hop_fields_go_and_their_neighbours_stay(proxy, origin):
    u = origin(reply(200))
    more = (b"A: 1\r\nConnection: close, x-one\r\nX-One: 1\r\nB: 2\r\nconnection:X-TWO,,  X-three\r\nx-two: 2\r\nX-Three: 3\r\n"
            b"Keep-Alive: 300\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
            b"Proxy-Authorization: Basic eDp5\r\nC: 3\r\n")
    with proxy().client() as c:
        c.send(lines(u, more=more))
        assert c.response().status == 200
    assert sent(u).replace(b"HTTP2-Settings: AAA\r\n", b"") == (b"GET /x HTTP/1.1\r\nHost: " + u.authority.encode()
                                                                + b"\r\nA: 1\r\nB: 2\r\nC: 3\r\n" + OURS + b"\r\n")


# --- responses

HEADS = [
    (b"HTTP/1.1 200 OK\r\n", b""),
    (b"HTTP/1.1 200 Gut gemacht, sehr gut\r\n", b""),
    (b"HTTP/1.1 200 \r\n", b""),
    (b"HTTP/1.1 299 Sonst was\r\n", b""),
    (b"HTTP/1.1 418 I'm a teapot\r\n", b""),
    (b"HTTP/1.1 599 \xfcber\r\n", b""),
    (b"HTTP/1.1 200 OK\r\n", b"date: never\r\nContent-TYPE:text/odd\r\nSet-Cookie: a=1, b; Expires=Wed, 09 Jun 2027 10:18:14 GMT\r\n"
                             b"x-between: 1\r\nset-cookie: b=2\r\nEmpty:\r\nWide:  a  b  \r\nETag: W/\"x\"\r\nServer: me\r\nAge: 5\r\n"
                             b"High: \xe4\xff\r\nWWW-Authenticate: Basic realm=\"a, b\", Digest\r\nWWW-Authenticate: Negotiate\r\n"),
]


@pytest.mark.parametrize("status_line,fields", HEADS, ids=range(len(HEADS)))
def test_response_head_crosses_byte_for_byte(proxy, origin, status_line, fields):
    response = status_line + fields + b"content-Length:  4\r\n\r\n\0\r\n\xff"
    u = origin(raw(response))
    assert came(talk(proxy(), lines(u))) == response


def test_date_type_and_length_are_never_invented(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\n\r\nabc", then="close"), raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
    p = proxy()
    for _ in range(2):
        got = came(talk(p, lines(u)))
        assert got == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize("response", [b"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
                                      b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1192\r\nContent-Type: a/b\r\n\r\n",
                                      b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"])
def test_responses_without_body(proxy, origin, response):
    u = origin(raw(response))
    p = proxy()
    assert came(talk(p, lines(u))) == response
    talk(p, lines(u))
    assert u.k == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 1192\r\nX: 1\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\n",
                                  b"HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\nContent-Length: 7\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"])
def test_head_gets_the_fields_of_a_get(proxy, origin, head):
    u = origin(raw(head), reply(200, b"next"))
    p = proxy()
    with p.client() as c:
        with took(0, 0.1):
            c.send(lines(u, "HEAD"))
            r = c.response("HEAD")
        assert r.all("Content-Length") == [line.split(b": ")[1].decode() for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
        assert c.silent(0.05)
        assert c.get(u.url("/2")).body == b"next"
    assert u.k == 1


def test_compressed_bodies_are_not_touched(proxy, origin):
    body = gzip.compress(b"hello " * 1000)
    u = origin(reply(200, body, [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]))
    p = proxy()
    r = p.fetch("PUT", u.url(), [("Content-Encoding", "gzip")], body)
    assert r.body == body and r.header("Content-Encoding") == "gzip" and u.requests[0].body == body
    assert u.requests[0].header("Accept-Encoding") is None, "none is asked for that the client didn't ask for"
    assert u.requests[0].header("Content-Encoding") == "gzip"


def test_response_trailers_cross(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum:  9\r\n"
                   b"Content-Length: 3\r\nSet-Cookie: a\r\nTransfer-Encoding: x\r\nx-B: 2\r\n\r\n"))
    got = came(talk(proxy(), lines(u)))
    assert got.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\nX-Sum:  9\r\nx-B: 2\r\n\r\n"), got


def test_trailers_are_dropped_for_a_1_0_client(proxy, origin):
    u = origin(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n"))
    got = came(talk(proxy(), lines(u, version="HTTP/1.0")))
    assert got == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"


def test_1_0_client_that_keeps_its_connection(proxy, origin):
    u = origin(reply(200, b"ab"))
    p = proxy()
    with p.client() as c:
        for _ in range(3):
            c.send(lines(u, version="HTTP/1.0", more=b"Connection: Keep-Alive\r\n"))
            r = c.response()
            assert r.body == b"ab" and r.header("Connection").lower() == "keep-alive" and r.framing == "length"
        c.send(lines(u, version="HTTP/1.0"))
        assert c.response().header("Connection", "close") == "close" and c.closed()


def test_1_0_origin_is_answered_for_in_1_1(proxy, origin):
    u = origin(raw(b"HTTP/1.0 200 Fine\r\nX: 1\r\nContent-Length: 2\r\n\r\nok", then="close"),
               raw(b"HTTP/1.0 200 Fine\r\nX: 1\r\n\r\nbody", then="close"))
    p = proxy()
    assert came(talk(p, lines(u))) == b"HTTP/1.1 200 Fine\r\nX: 1\r\nContent-Length: 2\r\n\r\nok"
    assert came(talk(p, lines(u))) == b"HTTP/1.1 200 Fine\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"


def test_1_0_on_both_sides(proxy, origin):
    u = origin(raw(b"HTTP/1.0 200 OK\r\n\r\nbody", then="close"))
    assert came(talk(proxy(), lines(u, version="HTTP/1.0"))) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"


def test_response_ended_by_close_with_close_said(proxy, origin):
    data = bytes(range(256)) * 300
    u = origin(raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + data, then="close"))
    p = proxy()
    with p.client() as c:
        assert c.get(u.url()).body == data
        assert c.get(u.url()).body == data, "what the origin does with its connection is no matter of the client's"
    assert u.k == 2


# --- interim responses

def test_interim_responses_cross_in_order_and_byte_for_byte(proxy, origin):
    u = origin(raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nlink:</b>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
                   b"HTTP/1.1 199 Odd\r\nX: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    got = talk(proxy(), lines(u))
    got, n = re.subn(rb"Via: 1\.1 evenkeel \([0-9a-f]+\)\r\n", b"", got)
    assert got.startswith(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nlink:</b>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
                          b"HTTP/1.1 199 Odd\r\nX: 1\r\n\r\nHTTP/1.1 200 OK\r\n") and got.endswith(b"\r\n\r\nok")
    assert n in (1, 4)


def test_interim_responses_come_before_the_final_one_is_there(proxy, origin):
    def step(x):
        x.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        x.sleep(0.4)
        x.reply(200, b"done")
    u = origin(step)
    with proxy().client() as c:
        with took(0, 0.1):
            assert c.request("GET", u.url()).head().status == 103
        with took(0.25, 0.5):
            assert c.response().body == b"done"


def test_100_that_nobody_asked_for_is_swallowed(proxy, origin):
    u = origin(raw(b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    with proxy().client() as c:
        r = c.get(u.url())
        assert r.body == b"ok" and r.interim == []


def test_expect_is_forwarded_and_its_100_passed_on(proxy, origin):
    def serve(conn):
        while (request := conn.read_head()) is not None:
            assert request.header("Expect") == "100-continue"
            assert conn.buffer == b""
            conn.sleep(0.15)
            assert not conn.buffer, "no body before the 100"
            conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            conn.read_body(request)
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + request.body)
    u = origin(on_connection=serve)
    with proxy().client() as c:
        for _ in range(2):
            c.send(lines(u, "PUT", more=b"Expect: 100-continue\r\nContent-Length: 5\r\n"))
            with took(0.1, 0.4):
                assert c.head().status == 100
            r = c.send("hello").response()
            assert r.status == 200 and r.body == b"hello" and r.interim == []
    assert u.k == 1


@pytest.mark.parametrize("status", [401, 413, 417])
def test_expected_body_is_not_sent_when_the_origin_refuses(proxy, origin, status):
    def serve(conn):
        conn.read_head()
        conn.send(f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno")
        while conn.fill():
            pass
    u = origin(on_connection=serve)
    p = proxy()
    with p.client() as c:
        c.send(lines(u, "PUT", more=b"Expect: 100-continue\r\nContent-Length: 1000000000\r\n"))
        with took(0, 0.2):
            r = c.response()
        assert (r.status, r.body, r.interim) == (status, b"no", [])
        assert r.header("Connection") == "close" and c.closed(), "where the next request starts would be unknown"
    u.connections[0].wait_ended(0.5)
    assert u.received().endswith(b"\r\n\r\n") and u.n == 1


@pytest.mark.parametrize("value", ["100-Continue", "100-continue, x", "banana"])
def test_other_spellings_of_expect(proxy, origin, value):
    u = origin(lambda x: x.reply(200, x.request.body))
    with proxy().client() as c:
        c.send(lines(u, "PUT", more=f"Expect: {value}\r\nContent-Length: 5\r\n".encode()) + b"hello")
        r = c.response()
    assert (r.status, r.body) in ((200, b"hello"), (417, r.body))


# --- over several attempts

def test_expected_body_over_two_attempts(proxy, origin):
    """Refused before its body, repeated, and only then wanted: one 100 for the client, one body for the origin."""
    def serve(conn):
        while (request := conn.read_head()) is not None:
            assert request.header("Expect") == "100-continue"
            if request.n == 1:
                conn.send(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno")
                conn.hold()
            conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            conn.read_body(request)
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + request.body)
    u = origin(on_connection=serve)
    with proxy().client() as c:
        c.send(lines(u, "PUT", more=b"Expect: 100-continue\r\nContent-Length: 5\r\n"))
        assert c.head().status == 100
        r = c.send("hello").response()
        assert (r.status, r.body, r.attempts, r.interim) == (200, b"hello", 2, [])
    assert u.k == 2, "a connection on which a body is outstanding is not used again"


def test_chunked_body_and_trailers_are_repeated_whole(proxy, origin):
    u = origin(reply(503), reply(200, b"got it"))
    with proxy().client() as c:
        c.send(lines(u, "PUT", more=b"Transfer-Encoding: chunked\r\n"), "3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-T: 1\r\n\r\n")
        assert c.response().body == b"got it"
    assert [(q.body, q.trailers, q.framing) for q in u.requests] == [(b"abcdefg", [("X-T", "1")], "chunked")] * 2


def test_answer_in_the_middle_of_an_upload_is_repeated_with_all_of_it(proxy, origin):
    def serve(conn):
        request = conn.read_head()
        if request.n == 1:
            conn.need(100)
            conn.send(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno")
            conn.hold()
        conn.read_body(request)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        conn.hold()
    u = origin(on_connection=serve)
    body = bytes(range(250)) * 2000
    with proxy().client() as c:
        c.send(lines(u, "PUT", more=b"Content-Length: 500000\r\n"), body[:1000])
        u.wait(n=2)
        c.send(body[1000:])
        r = c.response()
        assert r.status == 200 and r.attempts == 2
    assert u.requests[1].body == body


def test_interim_responses_of_each_attempt_cross(proxy, origin):
    u = origin(raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
               raw(b"HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    r = proxy().get(u.url())
    assert r.status == 200 and [i.header("Link") for i in r.interim] == ["</a>", "</b>"]


# --- loops

def test_ring_through_another_server_ends_at_the_second_pass(proxy, origin):
    box = {}

    def serve(conn):
        """A reverse proxy whose own way out leads back."""
        request = conn.read_head()
        head = request.head.replace(b"GET /", b"GET http://" + u.authority.encode() + b"/", 1)
        with Client(box["proxy"].address) as c:
            c.send(head)
            inner = c.response()
            conn.send(f"HTTP/1.1 {inner.status} Passed on\r\nContent-Length: {len(inner.body)}\r\n\r\n".encode() + inner.body)
    u = origin(on_connection=serve)
    box["proxy"] = p = proxy(defaults={"retry": {"max_attempts": 1}})
    with took(0, 1):
        r = p.get(u.url("/ring"))
    assert r.status == 502 and r.json()["error"] == "proxy_loop_detected" and u.n == 1


# --- at random

NAME_CHARS = "abcXYZ019-_!#$%&'*+.^`|~"
VALUE_CHARS = "".join(chr(c) for c in range(0x21, 0x7f)) + " \t\x80\xe4\xff"
HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization",
       "proxy-authenticate", "proxy-authentication-info"}
SET_BY_US = {"host", "via", "x-request-id", "expect", "content-length", "evenkeel-attempts", "evenkeel-upstream"}


def random_fields(rng):
    """Field lines as bytes, and those of them that have to cross."""
    given, cross, named = [], [], set()
    pool = ["".join(rng.choices(NAME_CHARS, k=rng.randint(1, 30))) for _ in range(6)] + ["Accept", "set-cookie", "Cookie", "ETag", "X-Y"]
    pool = [name for name in pool if name.lower() not in HOP | SET_BY_US and not name.lower().startswith("evenkeel-")]
    essential = {"set-cookie", "cookie"}
    if rng.random() < 0.5:
        named = {name.lower() for name in rng.sample(pool, rng.randint(1, 3))} - essential
    for _ in range(rng.randint(0, 20)):
        name = rng.choice(pool)
        value = "".join(rng.choices(VALUE_CHARS, k=rng.choice((0, 1, 5, 60))))
        line = f"{name}:{rng.choice(('', ' ', '  ', chr(9)))}{value}{rng.choice(('', '', ' '))}\r\n".encode("latin-1")
        given.append(line)
        if name.lower() not in named:
            cross.append(line)
    for field in rng.sample(sorted(HOP - {"connection", "transfer-encoding", "upgrade"}), rng.randint(0, 3)):
        given.insert(rng.randint(0, len(given)), f"{rng.choice((field, field.title()))}: x\r\n".encode())
    if named:
        given.insert(rng.randint(0, len(given)), ("Connection: " + rng.choice((",", " , ", ", ")).join(sorted(named)) + "\r\n").encode())
    return b"".join(given), b"".join(cross)


def test_random_heads(proxy, origin):
    rng = random.Random(20260711)
    want = {}

    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\n" + want["response"] + b"Content-Length: 0\r\n\r\n")
    u = origin(step)
    p = proxy()
    for i in range(250):
        request, crosses_up = random_fields(rng)
        want["response"], crosses_down = random_fields(rng)
        got = talk(p, b"GET " + u.url(f"/{i}").encode() + b" HTTP/1.1\r\nHost: x\r\n" + request + b"\r\n")
        assert sent(u, i) == f"GET /{i} HTTP/1.1\r\nHost: {u.authority}\r\n".encode() + crosses_up + OURS + b"\r\n", (i, request)
        assert came(got) == b"HTTP/1.1 200 OK\r\n" + crosses_down + b"Content-Length: 0\r\n\r\n", (i, want["response"])


def framed(rng, body, fits=("length", "chunked")):
    """The body framed one way or the other: (field line, bytes)."""
    if rng.choice(fits) == "length":
        return f"Content-Length: {len(body)}\r\n".encode(), body
    out, at = b"", 0
    while at < len(body):
        n = rng.choice((1, 2, 100, 5000, 70_000))
        piece = body[at:at + n]
        size = rng.choice(("%x", "%X", "0%x")) % len(piece)
        out += size.encode() + rng.choice((b"", b"", b";a", b';b="c d"')) + b"\r\n" + piece + b"\r\n"
        at += n
    return b"Transfer-Encoding: chunked\r\n", out + b"0\r\n" + rng.choice((b"", b"X-End: 1\r\n")) + b"\r\n"


def in_segments(rng, send, data):
    at = 0
    while at < len(data):
        n = rng.choice((1, 3, 1000, 20_000, 100_000, 10**9))
        send(data[at:at + n])
        at += n


@pytest.mark.parametrize("is_tls", [False, True], ids=["clear", "tls"])
def test_random_bodies_in_random_segments(proxy, origin, authority, is_tls):
    rng = random.Random(20260712)
    data = bytes(rng.randrange(256) for _ in range(1000)) * 400
    sizes = (0, 1, 2, 100, 4096, 65_535, 65_536, 65_537, 200_000)

    def step(x):
        size = int(x.request.target[1:])
        assert x.request.body == data[:size]
        field, body = framed(random.Random(size + x.n), data[size:size * 2])
        in_segments(random.Random(size), x.send, b"HTTP/1.1 200 OK\r\n" + field + b"\r\n" + body)
    u = origin(step, tls=authority.server() if is_tls else None)
    tls = {"originate": "on", "ca_file": authority.ca} if is_tls else {}
    p = proxy(defaults={"retry": {"max_attempts": 1}}, upstreams=[{"name": "u", "match": {"hosts": ["127.0.0.1"]}, "tls": tls}])
    with p.no_leak():
        for _ in range(6):
            with p.client() as c:
                todo = rng.choices(sizes, k=20)
                out = b""
                for size in todo:
                    field, body = framed(rng, data[:size])
                    out += f"PUT {u.url('/' + str(size))} HTTP/1.1\r\nHost: x\r\n".encode() + field + b"\r\n" + body
                # All of them pipelined, while their answers are read.
                sender = threading.Thread(target=in_segments, args=(random.Random(len(out)), c.send, out))
                sender.start()
                for size in todo:
                    r = c.response()
                    assert r.status == 200 and r.body == data[size:size * 2], size
                sender.join()
                assert c.silent(0.02)
    assert u.n == 120 and u.k <= 6
