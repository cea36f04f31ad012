"""TLS connections as they live: versions, ALPN, handshakes that stall, resumption, large bodies, ends, what is logged."""
import hashlib
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness import SLOWNESS, Incomplete, at_most, free_port, problem, raw, reply, took, until


def policy(port, ca, hosts=("localhost", "127.0.0.1"), **tls):
    return {"upstreams": [{"name": "t", "match": {"hosts": list(hosts)}, "port": port,
                           "tls": {"originate": "on", "ca_file": ca, **tls}}]}


def tls_nginx(nginx, pair, server="", listen="ssl"):
    """nginx that speaks TLS on .tls_port."""
    port = free_port()
    if "ssl_protocols" not in server:
        server += "ssl_protocols TLSv1.2 TLSv1.3;"
    u = nginx(server=f"listen 127.0.0.1:{port} {listen}; ssl_certificate {pair[0]}; ssl_certificate_key {pair[1]}; {server}")
    u.tls_port = port
    return u


SAY = 'location = /say { return 200 "$ssl_protocol $ssl_session_reused $ssl_server_name $http_host $ssl_alpn_protocol"; }'

# --- versions

OLD = ["-cipher", "ALL:@SECLEVEL=0"]


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_server(proxy, s_server, authority, version):
    u = s_server(authority.certificate("localhost"), "-www", version, *OLD)
    p = proxy(**policy(u.port, authority.ca))
    detail = problem(p.get("http://localhost/"), 502, "tls_protocol_error", verdict="not_listed", attempts=1)["detail"]
    assert f'TLS handshake with 127.0.0.1:{u.port}: the peer refused with alert "protocol version": ' \
        "it speaks no version from tls.min_version 1.2 on" in detail
    p = proxy(**policy(u.port, authority.ca, min_version="1.0"))
    assert {"-tls1": b"TLSv1\n", "-tls1_1": b"TLSv1.1\n"}[version] in p.get("http://localhost/").body
    assert "TLS before 1.2 is broken (RFC 8996)" in p.wait_log("policy_warning")["message"]


def test_tls_1_0_nginx(proxy, nginx, authority):
    u = tls_nginx(nginx, authority.certificate("localhost"), "ssl_protocols TLSv1; ssl_ciphers ALL:@SECLEVEL=0;" + SAY)
    detail = problem(proxy(**policy(u.tls_port, authority.ca)).get("http://localhost/say"), 502, "tls_protocol_error")["detail"]
    assert "it speaks no version from tls.min_version 1.2 on" in detail
    assert proxy(**policy(u.tls_port, authority.ca, min_version="1.0")).get("http://localhost/say").body.startswith(b"TLSv1 ")


@pytest.mark.parametrize("least,served", [("1.2", True), ("1.3", False)])
def test_min_version(proxy, s_server, authority, least, served):
    u = s_server(authority.certificate("localhost"), "-www", "-tls1_2")
    r = proxy(**policy(u.port, authority.ca, min_version=least)).get("http://localhost/")
    if served:
        assert r.status == 200 and b"TLSv1.2" in r.body
    else:
        assert "it speaks no version from tls.min_version 1.3 on" in problem(r, 502, "tls_protocol_error", attempts=1)["detail"]


# --- names and protocols

def test_sni_host_and_alpn(proxy, nginx, authority):
    u = tls_nginx(nginx, authority.certificate("localhost"), SAY)
    p = proxy(**policy(u.tls_port, authority.ca))
    assert p.get("http://localhost/say").body == f"TLSv1.3 . localhost localhost:{u.tls_port} http/1.1".encode()
    # An address is no name: no SNI (RFC 6066 3).
    assert p.get("http://127.0.0.1/say").body == f"TLSv1.3 .  127.0.0.1:{u.tls_port} http/1.1".encode()
    p = proxy(**policy(u.tls_port, authority.ca, server_name="127.0.0.1"))
    assert p.get("http://localhost/say").body == f"TLSv1.3 .  localhost:{u.tls_port} http/1.1".encode()


def test_ipv6_address(proxy, origin, authority):
    u = origin(reply(200, b"six"), host="::1", tls=authority.server("six", ("IP:::1",)))
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["[::1]"]}, "tls": {"originate": "on", "ca_file": authority.ca}}])
    assert p.get(f"http://[::1]:{u.port}/").body == b"six" and u.requests[0].header("Host") == f"[::1]:{u.port}"
    u = origin(reply(200), host="::1", tls=authority.server("seven", ("IP:::7",)))
    assert "name mismatch: wanted ::1, certificate is for ::7" in problem(p.get(f"http://[::1]:{u.port}/"), 502, "tls_certificate_error")["detail"]


def test_name_with_a_dot_at_its_end(proxy, nginx, authority, dns):
    """The dot is DNS's own: neither SNI nor the check has it (RFC 6066 3)."""
    u = tls_nginx(nginx, authority.certificate("dotted", ("DNS:dotted.test",)), SAY)
    stub = dns({"dotted.test": {"A": ["127.0.0.1"]}})
    p = proxy(dns=stub.policy, **policy(u.tls_port, authority.ca, hosts=["dotted.test"]))
    assert p.get("http://dotted.test./say").text.split()[2] == "dotted.test"


def test_server_name_replaces_sni_and_leaves_host(proxy, nginx, authority):
    u = tls_nginx(nginx, authority.certificate("inner", ("DNS:inner.test",)), SAY)
    r = proxy(**policy(u.tls_port, authority.ca, server_name="inner.test")).get("http://localhost/say")
    assert r.body == f"TLSv1.3 . inner.test localhost:{u.tls_port} http/1.1".encode()


@pytest.mark.parametrize("url", ["http://localhost/say", "http://localhost:80/say"])
def test_default_port(proxy, url):
    """Port 80 becomes 443 where nothing else is said. (Nothing listens on 443 here.)"""
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"originate": "on"}}], defaults={"retry": {"max_attempts": 1}})
    detail = problem(p.get(url), 502, "connection_refused")["detail"]
    assert "127.0.0.1:443" in detail and p.access()["url"] == url


def test_only_http_1_1_is_offered(proxy, nginx, authority):
    """A server that would rather speak HTTP/2 doesn't get to."""
    u = tls_nginx(nginx, authority.certificate("localhost"), SAY, listen="ssl http2")
    assert proxy(**policy(u.tls_port, authority.ca)).get("http://localhost/say").body.endswith(b" http/1.1")


def test_alpn_mismatch(proxy, s_server, authority):
    u = s_server(authority.certificate("localhost"), "-www", "-alpn", "h2")
    detail = problem(proxy(**policy(u.port, authority.ca)).get("http://localhost/"), 502, "tls_protocol_error", attempts=1)["detail"]
    assert f'TLS handshake with 127.0.0.1:{u.port}: the peer refused with alert "no application protocol"' in detail


# --- handshakes that come to nothing

def test_stalled_handshake(proxy, origin):
    u = origin(on_connection=lambda conn: conn.hold())
    p = proxy(defaults={"timeouts": {"tls_handshake": "200ms"}, "retry": {"max_attempts": 1}}, **policy(u.port, "system"))
    with p.no_leak(), took(0.2, 0.25):
        r = p.fetch("POST", "http://localhost/", body=b"x")
    detail = problem(r, 504, "connection_timeout", verdict="attempts", attempts=1)["detail"]
    assert f"TLS handshake with 127.0.0.1:{u.port}: not done within 200 ms" in detail
    assert p.metric("evenkeel_timeouts_total", kind="tls_handshake") == 1
    u.connections[0].wait_ended(0.3)


def test_handshake_that_stalls_half_way(proxy, origin, authority):
    """The limit covers the whole handshake, not the silence in it: a server that drips never ends it."""
    def drip(conn):
        conn.fill()
        # A handshake record that is announced whole and comes byte by byte.
        conn.send(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
        while conn.ended is None:
            conn.send(b"\x00")
            conn.sleep(0.02)
    u = origin(on_connection=drip)
    p = proxy(defaults={"timeouts": {"tls_handshake": "200ms"}, "retry": {"max_attempts": 1}}, **policy(u.port, authority.ca))
    with took(0.2, 0.25):
        r = p.get("http://localhost/")
    assert "not done within 200 ms" in problem(r, 504, "connection_timeout", attempts=1)["detail"]


def test_stalled_handshake_is_tried_again(proxy, origin, authority):
    """Before any byte of the request: for a POST too (`connect_failure`)."""
    first = []
    context = authority.server()

    def serve(conn):
        if not first:
            first.append(conn)
            conn.hold()
        conn.socket = context.wrap_socket(conn.socket, server_side=True)
        request = conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + request.body)
        conn.hold()
    u = origin(on_connection=serve)
    p = proxy(defaults={"timeouts": {"tls_handshake": "200ms"}}, **policy(u.port, authority.ca))
    r = p.fetch("POST", "http://localhost/", body=b"y")
    assert (r.status, r.body, r.attempts) == (200, b"y", 2)
    assert p.metric("evenkeel_retries_total", reason="connect_failure") == 1


@pytest.mark.parametrize("answer,words", [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the peer doesn't speak TLS on this port"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", "the peer doesn't speak TLS on this port"),
    (b"\x15\x03\x03\x00\x02\x02\x28", 'the peer refused with alert "handshake failure"'),
    (b"\x15\x03\x03\x00\x02\x02\x70", 'the peer refused with alert "unrecognized name"')])
def test_peers_that_speak_something_else(proxy, origin, authority, answer, words):
    u = origin(on_connection=lambda conn: (conn.fill(), conn.send(answer), conn.hold()))
    p = proxy(**policy(u.port, authority.ca))
    with p.no_leak():
        detail = problem(p.get("http://localhost/"), 502, "tls_protocol_error", verdict="not_listed", attempts=1)["detail"]
    assert f"TLS handshake with 127.0.0.1:{u.port}: {words}" in detail


def test_client_that_leaves_during_the_handshake(proxy, origin, authority):
    u = origin(on_connection=lambda conn: conn.hold())
    p = proxy(**policy(u.port, authority.ca))
    with p.no_leak():
        with p.client() as c:
            c.request("GET", "http://localhost/")
            u.wait(k=1)
            until(lambda: u.connections[0].received, 2, "the hello")
        at = time.monotonic()
        assert u.connections[0].wait_ended(1) - at < at_most(0.05, at)
    p.wait_metric("evenkeel_cancelled_total", 1, upstream="t")


# --- resumption

@pytest.mark.parametrize("how", ["1.3 tickets", "1.2 tickets", "1.2 session ids"])
def test_resumption(proxy, nginx, authority, how):
    protocol = "TLSv1.3" if how.startswith("1.3") else "TLSv1.2"
    u = tls_nginx(nginx, authority.certificate("localhost"), f"""ssl_protocols {protocol}; keepalive_timeout 0;
        ssl_session_tickets {'off' if how.endswith('ids') else 'on'}; ssl_session_cache {'shared:s:1m' if how.endswith('ids') else 'off'}; {SAY}""")
    p = proxy(**policy(u.tls_port, authority.ca))
    said = [p.get("http://localhost/say").body.split()[1] for _ in range(6)]
    assert said == [b"."] + [b"r"] * 5
    assert p.metric("evenkeel_tls_handshakes_total", upstream="t", kind="full") == 1
    assert p.metric("evenkeel_tls_handshakes_total", upstream="t", kind="resumed") == 5
    assert p.metric("evenkeel_connections_opened_total", upstream="t") == 6
    # Not with an other name, though it is the same server.
    assert p.get("http://127.0.0.1/say").body.split()[1] == b"."


def test_no_resumption_where_the_server_gives_none(proxy, nginx, authority):
    u = tls_nginx(nginx, authority.certificate("localhost"), "keepalive_timeout 0; ssl_session_tickets off; ssl_session_cache off;" + SAY)
    p = proxy(**policy(u.tls_port, authority.ca))
    assert [p.get("http://localhost/say").body.split()[1] for _ in range(3)] == [b"."] * 3
    assert p.metric("evenkeel_tls_handshakes_total", kind="full") == 3


def test_server_that_forgot_the_session(proxy, makers, s_server, authority):
    """A session from before the server's restart: a full handshake, nothing worse."""
    pair = authority.certificate("localhost")
    u = s_server(pair, "-www")
    p = proxy(**policy(u.port, authority.ca))
    for _ in range(2):
        assert p.get("http://localhost/").status == 200
    u.stop()
    makers.made.remove(u)
    again = s_server(pair, "-www", "-accept", f"127.0.0.1:{u.port}")
    again.port = u.port
    assert p.get("http://localhost/").status == 200
    assert p.metric("evenkeel_tls_handshakes_total", kind="full") == 2 and p.metric("evenkeel_tls_handshakes_total", kind="resumed") == 1


def test_many_at_once_find_a_ticket_each(proxy, nginx, authority):
    """A TLS 1.3 ticket is used once (RFC 8446 C.4), so there must be as many as there are connections at once."""
    u = tls_nginx(nginx, authority.certificate("localhost"), "keepalive_timeout 0;" + SAY)
    p = proxy(**policy(u.tls_port, authority.ca))
    faults = []

    def ask():
        with p.client() as c:
            for _ in range(5):
                r = c.get("http://localhost/say")
                if r.status != 200:
                    faults.append(r)
    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    full, resumed = (p.metric("evenkeel_tls_handshakes_total", kind=kind) for kind in ("full", "resumed"))
    assert not faults and full + resumed == 80 and full <= 16, (full, resumed)


# --- renegotiation

def test_renegotiation_is_refused(proxy, s_server, authority):
    u = s_server(authority.certificate("localhost"), "-tls1_2", "-legacy_renegotiation")
    p = proxy(defaults={"retry": {"max_attempts": 1}}, **policy(u.port, authority.ca))
    with p.client() as c:
        c.request("GET", "http://localhost/renegotiate")
        u.wait_output(b"GET /renegotiate HTTP/1.1")
        u.type(b"R\n")
        body = problem(c.response(), 502, "connection_terminated", attempts=1)
    assert 'the peer refused with alert "handshake failure"' in body["detail"]
    assert b"no renegotiation" in u.output


def test_key_update(proxy, s_server, authority):
    """TLS 1.3's way to new keys, asked for by the server in the middle of an exchange."""
    u = s_server(authority.certificate("localhost"), "-tls1_3")
    p = proxy(**policy(u.port, authority.ca))
    with p.client() as c:
        for i in range(2):
            c.request("PUT", f"http://localhost/{i}", body=b"x" * 20)
            u.wait_output(f"PUT /{i} HTTP/1.1".encode())
            u.type(b"K\n")
            time.sleep(0.05)
            u.type(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi\n")
            r = c.response("PUT")
            assert (r.status, r.body) == (200, b"hi\n")
    assert p.metric("evenkeel_connections_opened_total", upstream="t") == 1


def test_connections_that_the_origin_ends(proxy, nginx, authority):
    """nginx ends a connection after so many requests, or after a silence: noticed, closed, replaced, nothing fails."""
    u = tls_nginx(nginx, authority.certificate("localhost"), "keepalive_requests 3; keepalive_timeout 1s;" + SAY)
    p = proxy(**policy(u.tls_port, authority.ca))
    with p.client() as c:
        assert [c.get("http://localhost/say").status for _ in range(10)] == [200] * 10
        until(lambda: p.metric("evenkeel_pool_connections", state="idle") == 0, 3, "the idle connection's end")
        assert c.get("http://localhost/say").status == 200
    assert p.metric("evenkeel_connections_opened_total", upstream="t") == 5 and p.metric("evenkeel_retries_total") == 0
    assert p.metric("evenkeel_tls_handshakes_total", kind="resumed") == 4


# --- large bodies

SIZE = (64 << 20) if SLOWNESS == 1 else (16 << 20)


def pattern(size):
    block = hashlib.sha256(b"evenkeel").digest() * 32768 + b"#"  # 1 MiB and a byte: no repetition falls on a record's edge
    return (block * (size // len(block) + 1))[:size]


@pytest.mark.limit(120)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_large_bodies_both_ways(proxy, nginx, authority, version):
    """Up, and down to a reader that is slower than the origin: byte for byte, in bounded memory."""
    u = tls_nginx(nginx, authority.certificate("localhost"), f"""ssl_protocols {version}; client_max_body_size 0;
        location /put/ {{ dav_methods PUT; create_full_put_path on; }}""")
    data = pattern(SIZE)
    digest = hashlib.sha256(data).hexdigest()
    p = proxy(defaults={"timeouts": {"total": "100s", "attempt": "100s"}}, **policy(u.tls_port, authority.ca))
    p.get("http://localhost/ok")
    before = p.rss()
    peak = []
    with p.client(timeout=60) as c:
        c.request("PUT", "http://localhost/put/big", [("Content-Length", str(SIZE))])
        for start in range(0, SIZE, 1 << 20):
            c.send(data[start:start + (1 << 20)])
            peak.append(p.rss())
        assert c.response("PUT").status in (201, 204)
        with open(os.path.join(u.folder, "www", "put", "big"), "rb") as stream:
            assert hashlib.sha256(stream.read()).hexdigest() == digest
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.request("GET", "http://localhost/put/big")
        head, got, sha = c.head(), len(c.buffer), hashlib.sha256(c.buffer)
        assert head.status == 200 and head.header("Content-Length") == str(SIZE)
        c.buffer = b""
        while got < SIZE:
            if got < SIZE // 4:
                time.sleep(0.001)
            data = c.socket.recv(65536)
            assert data, "the body broke off"
            sha.update(data)
            got += len(data)
            if got % 16 == 0:
                peak.append(p.rss())
    assert sha.hexdigest() == digest
    if SLOWNESS == 1:
        assert max(peak) - before < 12 << 20, f"{(max(peak) - before) >> 10} KiB more for a body of {SIZE >> 20} MiB"


@pytest.mark.limit(60)
def test_origin_is_held_back(proxy, origin, authority):
    """A reader that stops reading stops the origin: what is on the way stays bounded, and then all of it arrives."""
    total, sent = 64 << 20, [0]
    block = bytes(range(256)) * 4096

    def flood(x):
        x.send(f"HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n".encode())
        while sent[0] < total:
            x.send(block)
            sent[0] += len(block)
    u = origin(flood, tls=authority.server())
    p = proxy(**policy(u.port, authority.ca))
    with p.client() as c:
        c.request("GET", "http://localhost/")
        c.head()
        until(lambda: sent[0] and _stands(sent), 5, "the origin to be held back")
        assert sent[0] < 24 << 20, f"{sent[0] >> 20} MiB were taken from the origin for a reader who took nothing"
        c.socket.settimeout(10 * SLOWNESS)
        got, wrong = len(c.buffer), c.buffer != (block * 2)[:len(c.buffer)]
        while got < total:
            data = c.socket.recv(1 << 20)
            assert data
            at = got % 256
            wrong |= data[:4096] != (block[at:] + block)[:min(len(data), 4096)]
            got += len(data)
        assert got == total and not wrong


def _stands(sent):
    before = sent[0]
    time.sleep(0.1)
    return sent[0] == before


@pytest.mark.limit(60)
def test_upload_is_held_back(proxy, origin, authority):
    """An origin that stops reading stops the client."""
    go = threading.Event()

    def serve(conn):
        request = conn.read_head()
        while not go.wait(0.01):
            if conn.origin.stopping:
                return
        left = int(request.header("Content-Length")) - len(conn.buffer)
        sha = hashlib.sha256(conn.buffer)
        while left:
            data = conn.socket.recv(262144)
            assert data
            sha.update(data)
            left -= len(data)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + sha.hexdigest().encode())
        conn.hold()
    u = origin(on_connection=serve, tls=authority.server())
    p = proxy(**policy(u.port, authority.ca))
    data, sent = pattern(SIZE), [0]
    with p.client(timeout=30) as c:
        c.request("PUT", "http://localhost/", [("Content-Length", str(SIZE))])

        def push():
            while sent[0] < SIZE:
                sent[0] += c.socket.send(data[sent[0]:sent[0] + 262144])
        thread = threading.Thread(target=push)
        thread.start()
        try:
            until(lambda: sent[0] and _stands(sent), 5, "the client to be held back")
            assert sent[0] < min(24 << 20, SIZE), f"{sent[0] >> 20} MiB were taken from the client for an origin that reads nothing"
        finally:
            go.set()
            thread.join()
        assert c.response("PUT").body == hashlib.sha256(data).hexdigest().encode()


# --- ends

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [0, 10, 200000])
def test_close_delimited_body_and_close_notify(proxy, origin, authority, version, size):
    """With close_notify it is complete, without it is not and never looks so (RFC 9112 9.8)."""
    context = authority.server()
    context.minimum_version = context.maximum_version = version
    data = b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * size

    def notify(x):
        x.send(data)
        x.connection.socket.setblocking(True)
        x.connection.socket.unwrap()
        x.close()
    u = origin(notify, tls=context)
    r = proxy(**policy(u.port, authority.ca)).get("http://localhost/")
    assert (r.status, len(r.body)) == (200, size)
    u = origin(raw(data, then="close"), tls=context)
    p = proxy(**policy(u.port, authority.ca))
    with p.client() as c, pytest.raises(Incomplete) as fault:
        c.get("http://localhost/")
    assert len(fault.value.response.body) <= size
    line = p.access()
    assert (line["status"], line["error"], line["verdict"], line["attempts"]) == (200, "http_response_incomplete", "committed", 1)


def test_s_server_page_is_complete(proxy, s_server, authority):
    """HTTP/1.0, no length, close_notify: as `openssl s_server -www` answers."""
    u = s_server(authority.certificate("localhost"), "-www")
    r = proxy(**policy(u.port, authority.ca)).get("http://localhost/")
    assert r.status == 200 and r.body.rstrip().lower().endswith(b"</html>")


def test_idle_connections_end_with_close_notify(proxy, origin, authority):
    u = origin(reply(200, b"x"), tls=authority.server())
    p = proxy(defaults={"pool": {"idle_timeout": "100ms"}}, **policy(u.port, authority.ca))
    p.get("http://localhost/")
    u.connections[0].wait_ended(1)
    assert u.connections[0].ended == "eof" and not u.faults


# --- secrets

def test_no_secrets_in_logs(proxy, origin, authority, tmp_path):
    pair = authority.certificate("client", (), client=True)
    u = origin(reply(200), tls=authority.server(client_ca=True))
    keys = tmp_path / "keys"
    p = proxy(log={"level": "debug"}, env={"SSLKEYLOGFILE": str(keys)},
              **policy(u.port, authority.ca, client_cert=pair[0], client_key=pair[1]))
    p.get("http://user:geheim1@localhost/", [("Authorization", "Bearer geheim2"), ("Cookie", "a=geheim3"), ("Proxy-Authorization", "Basic geheim4")])
    p.hup()
    pages = "".join(p.ask(path).text for path in ("/config", "/upstreams", "/metrics", "/explain?url=http://localhost/"))
    with open(pair[1], encoding="ascii") as stream:
        key = stream.read().split("\n")[1:-2]
    everything = json.dumps(p.lines) + pages
    secrets = [line.split()[2] for line in keys.read_text().splitlines() if not line.startswith("#")]
    assert secrets
    for secret in [*key, *secrets, "geheim", "PRIVATE KEY"]:
        assert secret not in everything, secret


def test_key_log(proxy, nginx, authority, tmp_path):
    """Only when the variable is set, readable by its owner only, and with a warning before the first connection."""
    u = tls_nginx(nginx, authority.certificate("localhost"))
    keys = tmp_path / "keys"
    p = proxy(env={"SSLKEYLOGFILE": str(keys)}, **policy(u.tls_port, authority.ca))
    line = p.wait_log("tls")
    assert (line["level"], line["message"]) == ("warn", f"SSLKEYLOGFILE is set: whoever reads {keys} can read all TLS traffic with upstreams")
    assert not keys.exists()
    assert p.get("http://localhost/ok").status == 200
    text = keys.read_text()
    assert {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} <= {line.split()[0] for line in text.splitlines()}
    assert keys.stat().st_mode & 0o777 == 0o600 and len(p.logs("tls")) == 1
    for env in ({}, {"SSLKEYLOGFILE": ""}):
        p = proxy(env=env, **policy(u.tls_port, authority.ca))
        assert p.get("http://localhost/ok").status == 200 and not p.logs("tls")


def test_key_log_that_cannot_be_written(proxy, nginx, authority, tmp_path):
    u = tls_nginx(nginx, authority.certificate("localhost"))
    p = proxy(env={"SSLKEYLOGFILE": str(tmp_path / "none" / "keys")}, **policy(u.tls_port, authority.ca))
    assert p.get("http://localhost/ok").status == 200
    assert p.wait_log("tls", 2)["message"] == "SSLKEYLOGFILE can't be opened: No such file or directory"


# --- what is left to a client: https:// in absolute form

def test_https_in_absolute_form(proxy, nginx, authority):
    """By the upstream's policy and TLS rule, or by the defaults; Host names the port unless it is 443."""
    u = tls_nginx(nginx, authority.certificate("localhost"), SAY)
    entry = {"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"ca_file": authority.ca}, "headers": {"response": {"set": {"X-Entry": "t"}}}}
    p = proxy(upstreams=[entry])
    r = p.get(f"https://localhost:{u.tls_port}/say?q=1")
    assert r.body == f"TLSv1.3 . localhost localhost:{u.tls_port} http/1.1".encode() and r.header("X-Entry") == "t"
    assert p.access()["url"] == f"https://localhost:{u.tls_port}/say"
    detail = problem(p.get(f"https://127.0.0.1:{u.tls_port}/say"), 502, "tls_certificate_error", upstream="default")["detail"]
    assert "unknown issuer CN=Evenkeel test authority" in detail
    p = proxy(env={"SSL_CERT_FILE": authority.ca}, upstreams=[entry])
    assert p.get(f"https://127.0.0.1:{u.tls_port}/say").header("Evenkeel-Upstream") == "default"


def test_https_in_absolute_form_with_retries_and_deadline(proxy, origin, authority):
    u = origin(reply(503), lambda x: x.hold(), tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "timeouts": {"total": "400ms"}, "tls": {"ca_file": authority.ca}}])
    with took(0.4, 0.45):
        problem(p.get(f"https://localhost:{u.port}/x"), 504, "http_response_timeout", attempts=2, upstream="t")
    assert u.targets == ["/x", "/x"] and u.requests[0].header("Host") == f"localhost:{u.port}"


def test_curl_is_not_needed_for_https_in_absolute_form(proxy, nginx, authority):
    """http.client of Python, told to ask a proxy for an https:// URL in clear: as its documentation has it."""
    import http.client
    u = tls_nginx(nginx, authority.certificate("localhost"), SAY)
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"ca_file": authority.ca}}])
    connection = http.client.HTTPConnection(*p.address, timeout=5)
    connection.request("GET", f"https://localhost:{u.tls_port}/say")
    assert connection.getresponse().read().startswith(b"TLSv1.3")
    connection.close()
