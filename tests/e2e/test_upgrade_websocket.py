"""WebSocket with a real client and a real server: through Upgrade in absolute form, and through CONNECT."""
import asyncio
import base64
import hashlib
import os
import socket
import threading
import time

import pytest
import websockets

from harness import Client, raw, reply, took
from harness.websocket import EchoServer

OPEN = {"egress": {"connect_ports": "any"}}
ASK = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13")]
ACCEPT = base64.b64encode(hashlib.sha1(b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\r\n".encode()


@pytest.fixture
def server():
    with EchoServer(subprotocols=["chat"]) as made:
        yield made


def absolute_form(p, server):
    """A relay that rewrites the client's origin-form request to absolute form: how a client with an HTTP proxy, but no CONNECT
    for ws://, asks. Everything behind the request line is the library's own bytes, both ways."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(source, target):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def run():
        inner, _ = listener.accept()
        head = b""
        while b"\r\n\r\n" not in head:
            head += inner.recv(65536)
        outer = Client(p.address)
        outer.send(head.replace(b"GET /", f"GET http://{server.authority}/".encode(), 1))
        thread = threading.Thread(target=carry, args=(outer.socket, inner), daemon=True)
        thread.start()
        carry(inner, outer.socket)
        thread.join(5)
        inner.close()
        outer.close()
    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


def tunnel(p, server):
    c = Client(p.address)
    c.send(f"CONNECT {server.authority} HTTP/1.1\r\nHost: {server.authority}\r\n\r\n")
    assert c.response("CONNECT").status == 200
    c.socket.setblocking(False)
    return {"sock": c.socket}


async def converse(url, **more):
    """Text, binary, large both ways, empty, ping, many at once, a clean close; gives the close code."""
    large = os.urandom(3_000_000)
    async with websockets.connect(url, max_size=None, subprotocols=["chat"], **more) as ws:
        assert ws.subprotocol == "chat"
        for message in ("hello", b"\0\1\xff", large, "", "gr\u00fc\u00df"):
            await ws.send(message)
            assert await ws.recv() == message
        await (await ws.ping(b"p"))
        for i in range(200):
            await ws.send(str(i))
        assert [await ws.recv() for _ in range(200)] == [str(i) for i in range(200)]
    return ws.close_code


def test_real_client_and_server_by_upgrade(proxy, server):
    p = proxy()
    with p.no_leak():
        port = absolute_form(p, server)
        assert asyncio.run(converse(f"ws://127.0.0.1:{port}/chat?a=1")) == 1000
    assert server.paths == ["/chat?a=1"] and server.protocol == "chat"
    assert server.headers["Host"] == server.authority and "evenkeel" in server.headers["Via"]
    line = p.access()
    assert (line["status"], line["verdict"], line["method"]) == (101, "ok", "GET")
    assert line["response_bytes"] > 3_000_000 and line["request_bytes"] > 3_000_000
    assert p.metric("evenkeel_tunnel_bytes_total") > 6_000_000


@pytest.mark.parametrize("policy", [OPEN, {}], ids=["opaque", "HTTP inside"])
def test_real_client_and_server_by_connect(proxy, server, policy):
    """The port is one for opaque tunnels; or it isn't, and the Upgrade inside is seen and made a tunnel of its own."""
    p = proxy(**policy)
    with p.no_leak():
        assert asyncio.run(converse(f"ws://{server.authority}/chat?a=1", **tunnel(p, server))) == 1000
    assert server.n == 1 and ("Via" in server.headers) == (policy == {})
    assert p.metric("evenkeel_opaque_tunnels_total") == (1 if policy else 0)


def test_aiohttp_by_its_proxy_option(proxy, server):
    import aiohttp
    p = proxy()

    async def work():
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"http://{server.authority}/chat", proxy=p.url, protocols=("chat",)) as ws:
                for message in ("one", "two" * 50000):
                    await ws.send_str(message)
                    assert (await ws.receive()).data == message
                return ws.protocol
    assert asyncio.run(work()) == "chat" and server.n == 1


def test_what_crosses_with_an_upgrade(proxy, origin):
    u = origin(raw(SWITCH + b"first", then="hold"))
    with proxy().client() as c:
        head = c.request("GET", u.url("/ws?x=1"), [*ASK, ("Connection", "X-Hop"), ("X-Hop", "1"), ("Sec-WebSocket-Protocol", "a, b"),
                                                   ("Keep-Alive", "5"), ("Origin", "http://o")]).head()
        assert head.status == 101 and head.reason == "Switching Protocols"
        assert (head.header("Upgrade"), head.header("Connection").lower(), head.header("Sec-WebSocket-Accept")) == ("websocket", "upgrade", ACCEPT)
        assert head.header("Content-Length") is None and head.header("Transfer-Encoding") is None
        assert c.exactly(5, head) == b"first"
    q = u.requests[0]
    assert q.target == "/ws?x=1" and q.header("Upgrade") == "websocket" and q.header("Connection").lower() == "upgrade"
    assert q.header("X-Hop") is None and q.header("Keep-Alive") is None
    assert q.header("Sec-WebSocket-Protocol") == "a, b" and q.header("Sec-WebSocket-Key") == ASK[2][1] and q.header("Origin") == "http://o"


def test_bytes_sent_before_the_101_are_kept(proxy, origin):
    def step(x):
        x.sleep(0.1)
        x.send(SWITCH)
        while x.connection.fill():
            x.send(x.connection.buffer.upper())
            x.connection.buffer = b""
    u = origin(step)
    with proxy().client() as c:
        head = c.request("GET", u.url(), ASK).send(b"eager").head()
        assert head.status == 101 and c.exactly(5, head) == b"EAGER"
        c.send("more")
        assert c.exactly(4, head) == b"MORE"


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 426])
def test_refused_upgrade_is_an_ordinary_response(proxy, origin, status):
    u = origin(reply(status, b"not here", [("X-Why", "policy")]), reply(200, b"next"))
    p = proxy()
    with p.no_leak(), p.client() as c:
        r = c.request("GET", u.url("/ws"), ASK).response()
        assert (r.status, r.body, r.header("X-Why"), r.attempts) == (status, b"not here", "policy", 1)
        assert r.header("Upgrade") is None and "upgrade" not in (r.header("Connection") or "").lower()
        assert c.get(u.url("/next")).body == b"next", "both connections go on"
    assert u.k == 1 and p.metric("evenkeel_tunnels_active") == 0 and u.requests[1].header("Upgrade") is None


def test_upgrade_required_by_426_keeps_no_hop_field(proxy, origin):
    u = origin(reply(426, b"", [("Upgrade", "TLS/1.0"), ("Connection", "Upgrade")]))
    r = proxy().get(u.url())
    assert r.status == 426 and r.header("Upgrade") is None


def test_failed_handshakes_are_repeated_by_the_policy(proxy, origin):
    """Until the 101 it is a GET like any other."""
    u = origin(reply(503, headers=[("Connection", "close")]), lambda x: x.reset(), raw(SWITCH + b"in", then="hold"))
    p = proxy()
    with p.client() as c:
        head = c.request("GET", u.url(), ASK).head()
        assert head.status == 101 and c.exactly(2, head) == b"in" and head.attempts == 3
    assert all(q.header("Upgrade") == "websocket" for q in u.requests)


def test_silent_origin_ends_in_504(proxy, origin):
    u = origin(lambda x: x.hold())
    p = proxy(defaults={"timeouts": {"total": "200ms"}})
    with p.client() as c, took(0.2, 0.25):
        assert c.request("GET", u.url(), ASK).response().status == 504


@pytest.mark.parametrize("fields", [[("Upgrade", "websocket")], [("Connection", "Upgrade")], [("Connection", "Upgrade"), ("Upgrade", "h2c")],
                                    [("Connection", "Upgrade"), ("Upgrade", "websocket, h2c")], [("Connection", "Upgrade"), ("Upgrade", "")]])
def test_what_is_no_upgrade_crosses_without_it(proxy, origin, fields):
    """Upgrade not named by Connection; nothing named; and h2c, in which requests could hide from the policy."""
    u = origin(reply(200, b"plain"), reply(200, b"next"))
    with proxy().client() as c:
        assert c.request("GET", u.url(), fields).response().body == b"plain"
        assert c.get(u.url()).body == b"next"
    assert u.requests[0].header("Upgrade") is None and "upgrade" not in u.requests[0].header("Connection", "").lower()


def test_upgrade_asked_by_1_0_is_none(proxy, origin):
    u = origin(reply(200, b"plain"))
    with proxy().client() as c:
        assert c.request("GET", u.url(), ASK, version="HTTP/1.0").response().body == b"plain"
    assert u.requests[0].header("Upgrade") is None


def test_ends_are_carried_through(proxy, origin):
    u = origin(raw(SWITCH + b"x", then="reset"), raw(SWITCH + b"x", then="half_close"), raw(SWITCH, then="hold"))
    p = proxy()
    with p.no_leak():
        with p.client() as c:
            head = c.request("GET", u.url(), ASK).head()
            with took(0, 0.15):
                try:
                    c.rest()
                except ConnectionError:
                    pass
            assert c.eof == "reset"
        with p.client() as c:
            head = c.request("GET", u.url(), ASK).head()
            assert c.exactly(1, head) == b"x" and c.closed()
        c = p.client()
        c.request("GET", u.url(), ASK).head()
        c.reset()
        u.connections[2].wait_ended(0.3)


def test_limits_of_tunnels_count_for_it(proxy, origin):
    u = origin(raw(SWITCH, then="hold"))
    p = proxy(defaults={"timeouts": {"total": "150ms", "attempt": "150ms", "tunnel_idle": "400ms"}})
    with p.client() as c:
        c.request("GET", u.url(), ASK).head()
        with took(0.4, 0.5):
            assert c.closed()
    p.wait_metric("evenkeel_timeouts_total", 1, kind="tunnel_idle")


def test_drain_lets_it_talk_until_its_end(proxy, server):
    p = proxy(drain={"timeout": "600ms"})
    with p.client() as c:
        head = c.request("GET", f"http://{server.authority}/chat", ASK).head()
        assert head.status == 101
        p.term()
        time.sleep(0.1)
        c.send(b"\x81\x82\0\0\0\0hi")
        assert c.exactly(4, head) == b"\x81\x02hi"
        start = time.monotonic()
        c.rest()
        assert time.monotonic() - start > 0.2
    assert p.wait_exit() == 3


def test_length_of_a_101_frames_nothing(proxy, origin):
    u = origin(raw(SWITCH[:-2] + b"Content-Length: 3\r\n\r\nhello", then="hold"))
    with proxy().client() as c:
        head = c.request("GET", u.url(), ASK).head()
        assert head.status == 101 and head.header("Content-Length") is None and c.exactly(5, head) == b"hello"


def test_upgrade_over_tls(proxy, origin, authority):
    """The application speaks ws:// to the proxy, the proxy wss:// to the origin."""
    def step(x):
        x.send(SWITCH + b"first")
        while x.connection.fill():
            x.send(x.connection.buffer)
            x.connection.buffer = b""
    u = origin(step, tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"]}, "tls": {"originate": "on", "ca_file": authority.ca}}])
    data = os.urandom(3_000_000)
    with p.no_leak(), p.client() as c:
        head = c.request("GET", u.url(), ASK).head()
        assert head.status == 101 and c.exactly(5, head) == b"first"
        sender = threading.Thread(target=c.send, args=(data,))
        sender.start()
        assert c.exactly(len(data), head) == data
        sender.join()
        c.shut()
        assert c.closed(), "the end is carried through TLS and back"
    assert u.connections[0].ended == "eof"
