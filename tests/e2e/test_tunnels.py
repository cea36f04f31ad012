"""CONNECT: opaque tunnels and tunnels that speak HTTP inside."""
import time

import pytest

from harness import close, free_port, problem, reply, took, until

OPEN = {"egress": {"connect_ports": "any"}}


def echo(conn):
    while conn.fill():
        conn.send(conn.buffer)
        conn.buffer = b""


def connect(c, authority, more="", then=b""):
    c.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{more}\r\n", then)
    return c.response("CONNECT")


def test_opaque_tunnel(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN)
    with p.no_leak():
        with p.client() as c:
            r = connect(c, u.authority)
            assert r.status == 200 and r.header("Content-Length") is None and r.header("Transfer-Encoding") is None
            c.send(b"\x16\x03ping")
            assert c.exactly(6, r) == b"\x16\x03ping"
            p.wait_metric("evenkeel_tunnels_active", 1, upstream="default")
    assert p.metric("evenkeel_opaque_tunnels_total", upstream="default") == 1
    assert p.metric("evenkeel_tunnel_bytes_total", upstream="default") == 12
    assert p.access()["method"] == "CONNECT"


# case I1
@pytest.mark.parametrize("authority", ["h", "h:", ":443", ":", "h:0", "h:65536", "h:443x", "h:443/", "h:443?", "h:443#", "u:p@h:443",
                                       "http://h:443", "/", "*", "h:-1", "h:+443", "[::1:443", "h 443", "h:443:443"])
def test_connect_syntax(proxy, authority):
    p = proxy(**OPEN)
    with p.client() as c:
        c.send(f"CONNECT {authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        problem(r, 400, "http_request_error")
        assert c.closed()


def test_connect_to_ipv6(proxy, origin):
    u = origin(on_connection=echo, host="::1")
    with proxy(**OPEN).client() as c:
        r = connect(c, f"[::1]:{u.port}", "")
        assert r.status == 200
        c.send("x")
        assert c.exactly(1, r) == b"x"


def test_host_field_of_connect_may_differ(proxy, origin):
    u = origin(on_connection=echo)
    with proxy(**OPEN).client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: other.example\r\n\r\n")
        assert c.response("CONNECT").status == 200


# case I3
def test_first_bytes_sent_along_are_kept(proxy, origin):
    u = origin(on_connection=echo)
    with proxy(**OPEN).client() as c:
        r = connect(c, u.authority, then=b"\x16\x03\x01\x00")
        c.send("more")
        assert c.exactly(8, r) == b"\x16\x03\x01\x00more"
    assert u.received() == b"\x16\x03\x01\x00more"


def test_bytes_after_a_refused_connect_are_not_http(proxy, origin):
    u = origin(reply(200))
    with proxy(egress={"tunnel_http": "off"}).client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\nGET {u.url('/smuggled')} HTTP/1.1\r\nHost: x\r\n\r\n")
        problem(c.response("CONNECT"), 403, "http_request_denied")
        assert c.closed()
    assert u.k == 0


def test_every_refusal_of_a_connect_closes(proxy, origin):
    u = origin(reply(200))
    p = proxy(**OPEN)
    smuggled = f"GET {u.url('/smuggled')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with p.client() as c:
        problem(connect(c, u.authority, "Evenkeel-Timeout: soon\r\n", then=smuggled), 400, "http_request_error")
        assert c.closed()
    with p.client() as c:
        via = c.get(u.url("/")).header("Via")
        problem(connect(c, u.authority, f"Via: {via}\r\n", then=smuggled), 502, "proxy_loop_detected")
        assert c.closed()
    assert u.n == 1


# case I5
def test_half_close_is_carried_through(proxy, origin):
    def serve(conn):
        while conn.fill():
            pass
        conn.sleep(0.2)
        conn.send(b"z" * 1_000_000)
    u = origin(on_connection=serve)
    p = proxy(**OPEN)
    with p.no_leak():
        with p.client() as c:
            assert connect(c, u.authority).status == 200
            c.send("request").shut()
            assert c.rest() == b"z" * 1_000_000 and c.eof == "eof"
    assert u.connections[0].ended == "eof" and u.received() == b"request"


def test_origin_half_close_is_carried_through(proxy, origin):
    def serve(conn):
        conn.send("bye")
        conn.half_close()
        while conn.fill():
            pass
    u = origin(on_connection=serve)
    with proxy(**OPEN).client() as c:
        assert connect(c, u.authority).status == 200
        assert c.rest() == b"bye"
        c.send("still talking")
        c.shut()
        until(lambda: u.received() == b"still talking", 1)


def test_reset_is_carried_through(proxy, origin):
    u = origin(on_connection=lambda conn: (conn.fill(), conn.reset()))
    with proxy(**OPEN).client() as c:
        assert connect(c, u.authority).status == 200
        with took(0, 0.1):
            c.send("x")
            assert c.closed(1)


def test_client_reset_is_carried_through(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN)
    with p.no_leak():
        c = p.client()
        assert connect(c, u.authority).status == 200
        u.wait(k=1)
        c.reset()
        u.connections[0].wait_ended(0.3)


# case I7
def test_connect_that_fails(proxy, blackhole, dns):
    d = dns({"gone.test": "nxdomain"})
    p = proxy(**OPEN, dns=d.policy, defaults={"timeouts": {"connect": "200ms"}, "retry": {"max_attempts": 2}})
    for authority, status, error in ((f"127.0.0.1:{free_port()}", 502, "connection_refused"),
                                     (f"127.0.0.1:{blackhole.port}", 504, "connection_timeout"),
                                     ("gone.test:443", 502, "dns_error")):
        with p.client() as c:
            problem(connect(c, authority), status, error)
            assert c.closed()


def test_connect_is_dialled_again_before_the_200(proxy, makers):
    import threading
    from harness import Origin
    port = free_port()
    timer = threading.Timer(0.2, lambda: makers.add(Origin(on_connection=echo, port=port)))
    timer.start()
    p = proxy(**OPEN, defaults={"retry": {"max_attempts": 5, "backoff": {"base": "100ms", "max": "100ms"}}})
    with p.client() as c:
        r = connect(c, f"127.0.0.1:{port}")
        timer.join()
        assert r.status == 200


# case I9
def test_total_does_not_bound_a_tunnel_but_idle_does(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN, defaults={"timeouts": {"total": "200ms", "attempt": "200ms", "tunnel_idle": "400ms"}})
    with p.client() as c:
        r = connect(c, u.authority)
        for _ in range(4):
            time.sleep(0.15)
            c.send("x")
            assert c.exactly(1, r) == b"x"
        with took(0.35, 0.5):
            assert c.closed(2)
    p.wait_metric("evenkeel_timeouts_total", 1, kind="tunnel_idle")


def test_tunnel_total(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN, defaults={"timeouts": {"tunnel_total": "300ms"}})
    with p.client() as c:
        with took(0.3, 0.4):
            connect(c, u.authority)
            assert c.closed(2)


def test_back_pressure_in_tunnels(proxy, origin):
    def serve(conn):
        while True:
            conn.send(b"z" * 65536)
    u = origin(on_connection=serve)
    p = proxy(**OPEN)
    with p.client() as c:
        assert connect(c, u.authority).status == 200
        time.sleep(0.1)
        before = p.rss()
        time.sleep(0.4)
        assert p.rss() - before < 2e6, "nobody reads: nothing is gathered"


def test_large_transfer_through_a_tunnel(proxy, origin):
    import hashlib
    import os
    import threading
    data = os.urandom(10_000_000)
    u = origin(on_connection=echo)
    with proxy(**OPEN).client() as c:
        r = connect(c, u.authority)
        thread = threading.Thread(target=lambda: c.send(data))
        thread.start()
        digest = hashlib.sha256()
        n = 0
        while n < len(data):
            while not c.buffer:
                assert c.fill()
            digest.update(c.buffer)
            n += len(c.buffer)
            c.buffer = b""
        thread.join()
    assert r.status == 200 and digest.digest() == hashlib.sha256(data).digest()


def test_denied_connects(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(unmatched="deny", egress={"connect_ports": "any"}, upstreams=[{"name": "x", "match": {"hosts": ["x.example"]}}])
    with p.client() as c:
        problem(connect(c, u.authority), 403, "http_request_denied")
    p = proxy(egress={"connect_ports": "any", "deny_addresses": ["127.0.0.0/8"]})
    with p.client() as c:
        problem(connect(c, u.authority), 403, "destination_ip_prohibited")
    assert u.k == 0


# --- HTTP inside a tunnel

def test_http_inside_gets_the_full_policy(proxy, origin):
    u = origin(reply(503), reply(200, b"mended"), reply(502), reply(200, b"again"))
    p = proxy()
    with p.client() as c:
        assert connect(c, u.authority).status == 200
        r = c.fetch("GET", "/a?b", host=u.authority)
        assert (r.status, r.body, r.attempts) == (200, b"mended", 2)
        r = c.fetch("GET", "/c", host=u.authority)
        assert (r.body, r.attempts) == (b"again", 2)
    assert u.targets == ["/a?b", "/a?b", "/c", "/c"]


def test_http_inside_goes_where_connect_said(proxy, origin):
    u, other = origin(reply(200, b"right")), origin(reply(200, b"wrong"))
    with proxy().client() as c:
        assert connect(c, u.authority).status == 200
        r = c.fetch("GET", "/", host=other.authority)
        assert r.body == b"right"
    with proxy().client() as c:
        assert connect(c, u.authority).status == 200
        problem(c.fetch("GET", other.url()), 400, "http_request_error")
    assert other.n == 0


def test_what_is_no_http_inside_is_closed(proxy, origin):
    u = origin(close())
    with proxy().client() as c:
        assert connect(c, u.authority).status == 200
        c.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64))
        c.rest()
        assert c.eof
    assert u.n == 0


def test_tunnel_http_off(proxy, origin):
    u = origin(reply(200))
    p = proxy(egress={"tunnel_http": "off"})
    with p.client() as c:
        problem(connect(c, u.authority), 403, "http_request_denied")


def test_ports_of_an_upstream_may_be_tunnelled(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"], "ports": [u.port]}}])
    with p.client() as c:
        r = connect(c, u.authority)
        assert r.status == 200
        c.send(b"\x16\x03\x01")
        assert c.exactly(3, r) == b"\x16\x03\x01"


def test_opaque_tunnel_to_a_host_with_a_policy_warns_once(proxy, origin, authority):
    """The warning names the host and has the lines of policy that would enforce what the tunnel hides. They do."""
    u = origin(reply(503), reply(200, b"ok"), tls=authority.server())
    entry = {"name": "t", "match": {"hosts": ["localhost"]}, "retry": {"max_attempts": 5}}
    p = proxy(egress={"connect_ports": "any"}, upstreams=[entry])
    for _ in range(2):
        with p.client() as c:
            connect(c, f"localhost:{u.port}")
    p.wait_metric("evenkeel_opaque_tunnels_total", 2, upstream="t")
    line = p.wait_log("opaque_tunnel")
    assert len(p.logs("opaque_tunnel")) == 1
    assert (line["level"], line["upstream"], line["host"], line["port"]) == ("warn", "t", "localhost", u.port)
    before, *lines, after = line["message"].split("\n")
    assert f"the CONNECT tunnel to localhost:{u.port} " in before and f"asks for http://localhost:{u.port}/ " in before
    assert lines == ["  - name: t", "    match: {hosts: [localhost]}", "    tls: {originate: on}"]
    assert "listen: 127.0.0.1:9001" in after
    text = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams:\n" + "\n".join(lines)
    p = proxy(text=text, env={"SSL_CERT_FILE": authority.ca})
    r = p.get(f"http://localhost:{u.port}/")
    assert (r.body, r.attempts) == (b"ok", 2)


def test_the_warning_of_an_opaque_tunnel_to_an_address(proxy, origin):
    u = origin(on_connection=echo, host="::1")
    p = proxy(egress={"connect_ports": "any"}, upstreams=[{"name": "six", "match": {"hosts": ["[::1]"]}}])
    with p.client() as c:
        connect(c, u.authority)
    lines = p.wait_log("opaque_tunnel")["message"].split("\n")
    assert f"tunnel to [::1]:{u.port} " in lines[0] and f"asks for http://[::1]:{u.port}/ " in lines[0]
    assert lines[2] == '    match: {hosts: ["[::1]"]}'
