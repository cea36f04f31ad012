"""Bodies of any size, both ways, at any speed: passed on as they come, in bounded memory."""
import os
import socket
import subprocess
import threading
import time

import pytest

from harness import BIN, SLOWNESS, Client, at_most, reply, took, until
from harness.proxy import environment

IS_PLAIN = SLOWNESS == 1 and "asan" not in BIN  # a sanitizer's own memory says nothing about ours
SIZE = 1 << 30 if IS_PLAIN else 64 << 20
GROWTH = 4 << 20 if IS_PLAIN else 400 << 20     # of resident memory, for each exchange; AddressSanitizer keeps what is freed
SOON = 0.02                                     # what arrives is passed on within this
BLOCK = os.urandom(1 << 20)
TWICE = BLOCK * 2

# One long body is enough at a time; big replay and hold-back buffers would only hide what streaming itself needs.
UNBUFFERED = {"limits": {"request_buffer": 0}}


class Peak:
    """The largest resident memory of the proxy while a block runs, beyond what it had at its start."""

    def __init__(self, p):
        self.p, self.over = p, threading.Event()

    def __enter__(self):
        self.start = self.peak = self.p.rss()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while not self.over.wait(0.005):
            self.peak = max(self.peak, self.p.rss())

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    @property
    def growth(self):
        return self.peak - self.start


def pour(send, n):
    """n bytes of BLOCK, over and over."""
    while n > 0:
        piece = BLOCK[:n] if n < len(BLOCK) else BLOCK
        send(piece)
        n -= len(piece)


class Checked:
    """Takes bytes that must be those of pour()."""

    def __init__(self):
        self.n, self.is_right = 0, True

    def take(self, data):
        at = self.n % len(BLOCK)
        while data:
            part = data[:len(BLOCK)]
            self.is_right &= part == TWICE[at:at + len(part)]
            at = (at + len(part)) % len(BLOCK)
            self.n += len(part)
            data = data[len(part):]


def drain(sock, checked, n=None, chunked=None):
    """Reads n bytes, or all, or a chunked body (chunked: what was read already)."""
    if chunked is None:
        while n is None or checked.n < n:
            data = sock.recv(262144 if n is None else min(262144, n - checked.n))
            if not data:
                return
            checked.take(data)
        return
    buffer = chunked
    while True:
        while b"\r\n" not in buffer:
            data = sock.recv(262144)
            assert data, "ended within a chunk's size"
            buffer += data
        line, buffer = buffer.split(b"\r\n", 1)
        size = int(line.split(b";")[0], 16)
        while len(buffer) < size + 2:
            data = sock.recv(262144)
            assert data, "ended within a chunk"
            buffer += data
        if size == 0:
            assert buffer == b"\r\n", buffer
            return
        checked.take(buffer[:size])
        assert buffer[size:size + 2] == b"\r\n"
        buffer = buffer[size + 2:]


def head_of(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        assert more, data
        data += more
    return data.split(b"\r\n\r\n", 1)


def source(conn, framing, n=SIZE):
    """An origin that sends n bytes after the head of a request."""
    conn.socket.settimeout(60)
    head_of(conn.socket)
    send = conn.socket.sendall
    if framing == "length":
        send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
        pour(send, n)
        conn.socket.recv(1)  # until the proxy closes
    elif framing == "chunked":
        send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        pour(lambda piece: send(b"%x\r\n%b\r\n" % (len(piece), piece)), n)
        send(b"0\r\n\r\n")
        conn.socket.recv(1)
    else:
        send(b"HTTP/1.1 200 OK\r\n\r\n")
        pour(send, n)


def sink(taken):
    """An origin that takes a whole body, checks it, and answers with its size."""
    def serve(conn):
        sock = conn.socket
        sock.settimeout(60)
        head, rest = head_of(sock)
        if b"xpect: 100-continue" in head:
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if b"chunked" in head:
            drain(sock, taken, chunked=rest)
        else:
            n = int([line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")][0].split(b":")[1])
            taken.take(rest)
            drain(sock, taken, n)
        body = b"%d" % taken.n
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        sock.recv(1)
    return serve


def warm(p, origin):
    """One exchange of each kind, so that what is set up once is there before the measurement."""
    small = origin(lambda x: x.reply(200, chunked=[x.request.body or b"w" * 300000]))
    for _ in range(3):
        p.get(small.url())
        p.fetch("PUT", small.url(), body=b"w" * 300000)


# --- size

@pytest.mark.limit(60)
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_one_gibibyte_down(proxy, origin, framing):
    n = SIZE if framing == "length" else SIZE // 4
    u = origin(on_connection=lambda conn: source(conn, framing, n))
    p = proxy(defaults={"timeouts": {"total": "60s", "attempt": "60s"}})
    warm(p, origin)
    checked = Checked()
    with p.client() as c, Peak(p) as peak:
        c.socket.settimeout(30)
        c.request("GET", u.url())
        head, rest = head_of(c.socket)
        if b"chunked" in head:
            drain(c.socket, checked, chunked=rest)
        else:
            checked.take(rest)
            drain(c.socket, checked, n)
    assert checked.n == n and checked.is_right
    assert peak.growth < GROWTH, f"{peak.growth} bytes"
    assert p.access(count=7)["response_bytes"] == n


@pytest.mark.limit(60)
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_one_gibibyte_up(proxy, origin, framing):
    taken = Checked()
    u = origin(on_connection=sink(taken))
    p = proxy(**UNBUFFERED, defaults={"timeouts": {"total": "60s", "attempt": "60s"}})
    warm(p, origin)
    n = SIZE if framing == "length" else SIZE // 4
    with p.client() as c, Peak(p) as peak:
        c.socket.settimeout(30)
        if framing == "length":
            c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n")
            pour(c.socket.sendall, n)
        else:
            c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            pour(lambda piece: c.socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece)), n)
            c.send(b"0\r\n\r\n")
        r = c.response()
    assert r.status == 200 and r.body == b"%d" % n and taken.is_right
    assert peak.growth < GROWTH, f"{peak.growth} bytes"


@pytest.mark.limit(60)
def test_upload_beyond_the_replay_buffer_keeps_no_more_than_it(proxy, origin):
    taken = Checked()
    u = origin(on_connection=sink(taken))
    p = proxy(defaults={"timeouts": {"total": "60s", "attempt": "60s"}})  # request_buffer as built in: 1 MiB
    warm(p, origin)
    n = 256 << 20 if IS_PLAIN else SIZE
    with p.client() as c, Peak(p) as peak:
        c.socket.settimeout(30)
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n")
        pour(c.socket.sendall, n)
        assert c.response().body == b"%d" % n
    assert taken.is_right and peak.growth < GROWTH, f"{peak.growth} bytes"
    assert p.metric("evenkeel_buffered_bytes") == 0


@pytest.mark.limit(60)
def test_chunked_upload_from_stdin_by_curl(proxy, origin):
    """What curl -T - does: chunked, of unknown size, with Expect: 100-continue."""
    taken = Checked()
    u = origin(on_connection=sink(taken))
    p = proxy(defaults={"timeouts": {"total": "60s", "attempt": "60s"}})
    warm(p, origin)
    with Peak(p) as peak:
        curl = subprocess.Popen(["curl", "-sS", "-H", "Expect: 100-continue", "-T", "-", "-x", p.url, u.url("/up")], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, env=environment())
        pour(curl.stdin.write, SIZE)
        out, _ = curl.communicate(timeout=30)
    assert curl.returncode == 0 and out == b"%d" % SIZE and taken.is_right
    assert peak.growth < GROWTH, f"{peak.growth} bytes"


# --- speed

@pytest.mark.limit(60)
def test_slow_readers_of_large_bodies(proxy, origin):
    """Eight clients that take a little at a time from origins that offer all they can."""
    sent = []

    def serve(conn):
        conn.socket.settimeout(30)
        head_of(conn.socket)
        at = len(sent)
        sent.append(0)
        conn.socket.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40))

        def send(piece):
            conn.send(piece)
            sent[at] += len(piece)
        pour(send, 1 << 40)
    u = origin(on_connection=serve)
    p = proxy()
    warm(p, origin)
    clients = []
    with Peak(p) as peak:
        for _ in range(8):
            c = Client(p.address)
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            c.request("GET", u.url())
            clients.append(c)
        checks = [Checked() for _ in clients]
        for c, checked in zip(clients, checks):
            checked.take(head_of(c.socket)[1])
        for _ in range(40):
            for c, checked in zip(clients, checks):
                checked.take(c.socket.recv(16384))
            time.sleep(0.02)
        at_half = sum(sent)
        for _ in range(10):
            for c, checked in zip(clients, checks):
                checked.take(c.socket.recv(16384))
            time.sleep(0.02)
        assert sum(sent) - at_half < 8 * 10 * 16384 + 8 * (4 << 20), "the origins are held back to the readers' speed"
    assert all(checked.is_right for checked in checks)
    assert peak.growth < len(clients) * GROWTH, f"{peak.growth} bytes"
    for c in clients:
        c.close()


def test_upload_at_the_speed_of_the_origin(proxy, origin):
    """A client with much to send and an origin that takes little: the client has to wait."""
    def serve(conn):
        conn.socket.settimeout(30)
        conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        taken = Checked()
        taken.take(head_of(conn.socket)[1])
        box.append(taken)
        while not conn.origin.stopping:
            data = conn.socket.recv(16384)
            if not data:
                return
            taken.take(data)
            time.sleep(0.01)
    box = []
    u = origin(on_connection=serve)
    p = proxy(**UNBUFFERED)
    warm(p, origin)
    with p.no_leak(), Peak(p) as peak:
        with p.client() as c:
            c.socket.settimeout(0.5)
            c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 40}\r\n\r\n")
            sent, end = 0, time.monotonic() + 1.5
            try:
                while time.monotonic() < end:
                    sent += c.socket.send(BLOCK[sent % len(BLOCK):])
            except TimeoutError:
                pass
            assert sent - box[0].n < 16 << 20, "what is between them is what sockets hold"
            c.reset()
    assert box[0].is_right and peak.growth < GROWTH, f"{peak.growth} bytes"


def test_reader_that_stops_and_goes_on(proxy, origin):
    n = 24 << 20
    u = origin(on_connection=lambda conn: source(conn, "length", n))
    p = proxy(defaults={"timeouts": {"body_idle": "10s"}})
    with p.client() as c:
        c.socket.settimeout(10)
        c.request("GET", u.url())
        checked = Checked()
        checked.take(head_of(c.socket)[1])
        for _ in range(3):
            time.sleep(0.3)
            drain(c.socket, checked, checked.n + (4 << 20))
        drain(c.socket, checked, n)
    assert checked.n == n and checked.is_right


def test_client_that_does_not_read_is_no_silence_of_the_origin(proxy, origin):
    """body_idle counts while the proxy waits for the origin, not while it makes the origin wait."""
    n = 40 << 20
    u = origin(on_connection=lambda conn: source(conn, "length", n))
    p = proxy(defaults={"timeouts": {"body_idle": "200ms"}})
    with p.client() as c:
        c.socket.settimeout(10)
        c.request("GET", u.url())
        checked = Checked()
        checked.take(head_of(c.socket)[1])
        time.sleep(0.7)
        drain(c.socket, checked, n)
    assert checked.n == n and checked.is_right


@pytest.mark.limit(60)
def test_over_tls_both_ways(proxy, origin, authority):
    n = 128 << 20 if IS_PLAIN else 16 << 20
    taken = Checked()
    down = origin(on_connection=lambda conn: source(conn, "chunked", n), tls=authority.server())
    up = origin(on_connection=sink(taken), tls=authority.server())
    p = proxy(**UNBUFFERED, upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"]}, "tls": {"originate": "on", "ca_file": authority.ca}}])
    small = origin(lambda x: x.reply(200, b"w" * 300_000), tls=authority.server())
    for _ in range(3):
        p.get(small.url())
    checked = Checked()
    with Peak(p) as peak:
        with p.client() as c:
            c.socket.settimeout(20)
            c.request("GET", down.url())
            _, rest = head_of(c.socket)
            drain(c.socket, checked, chunked=rest)
        with p.client() as c:
            c.socket.settimeout(20)
            c.send(f"PUT {up.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n")
            pour(c.socket.sendall, n)
            assert c.response().body == b"%d" % n
    assert checked.n == n and checked.is_right and taken.is_right
    assert peak.growth < GROWTH, f"{peak.growth} bytes"


# --- at once

def test_each_event_within_20_ms(proxy, origin):
    stamps = []

    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(60):
            x.sleep(0.003 if i % 3 else 0.03)
            event = b"data: %d\n\n" % i
            stamps.append(time.monotonic())
            x.send(b"%x\r\n%b\r\n" % (len(event), event))
        x.send(b"0\r\n\r\n")
    u = origin(step)
    with proxy().client() as c:
        head = c.request("GET", u.url("/events")).head()
        lags, seen = [], b""
        while b"data: 59\n\n" not in seen:
            assert c.fill()
            seen, now = c.buffer, time.monotonic()
            while seen.count(b"\n\n") > len(lags):
                lags.append(now - stamps[len(lags)])
        c.body(head)
    assert head.body == b"".join(b"data: %d\n\n" % i for i in range(60)) and len(lags) == 60
    lags.sort()
    assert lags[0] >= 0
    assert lags[int(len(lags) * 0.8)] < at_most(SOON * SLOWNESS, stamps[0], 0), lags
    assert lags[-1] < at_most(SOON, stamps[0]), lags


@pytest.mark.parametrize("framing", ["chunked", "close", "long"])
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_a_byte_at_a_time(proxy, origin, framing, version):
    """No type, no event stream: whatever is not short enough to be held is passed on as it comes."""
    stamps = []

    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\n" + {"chunked": b"Transfer-Encoding: chunked\r\n\r\n", "close": b"\r\n",
                                         "long": b"Content-Length: 1000000\r\n\r\n"}[framing])
        for i in range(8):
            x.sleep(0.04)
            stamps.append(time.monotonic())
            x.send(b"1\r\n%d\r\n" % i if framing == "chunked" else b"%d" % i)
        x.sleep(0.04)
        x.reset()
    u = origin(step)
    with proxy(defaults={"retry": {"max_attempts": 1}}).client() as c:
        head = c.request("GET", u.url(), version=version).head()
        lags, is_chunked = [], head.header("Transfer-Encoding") == "chunked"
        for i in range(8):
            want = b"1\r\n%d\r\n" % i if is_chunked else b"%d" % i
            assert c.exactly(len(want), head) == want
            lags.append(time.monotonic() - stamps[i])
        assert sorted(lags)[5] < at_most(SOON * SLOWNESS, stamps[0], 0) and max(lags) < at_most(SOON, stamps[0]), lags
        assert c.closed()


@pytest.mark.parametrize("is_chunked", [True, False])
def test_request_body_is_passed_on_as_it_comes(proxy, origin, is_chunked):
    stamps, lags = [], []

    def serve(conn):
        conn.read_head()
        for i in range(8):
            want = b"1\r\n%d\r\n" % i if is_chunked else b"%d" % i
            assert conn.need(len(want)) == want
            lags.append(time.monotonic() - stamps[i])
        if is_chunked:
            assert conn.need(5) == b"0\r\n\r\n"
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        conn.fill()
    u = origin(on_connection=serve)
    with proxy().client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\n" + ("Transfer-Encoding: chunked\r\n\r\n" if is_chunked else "Content-Length: 8\r\n\r\n"))
        for i in range(8):
            time.sleep(0.04)
            stamps.append(time.monotonic())
            c.send(b"1\r\n%d\r\n" % i if is_chunked else b"%d" % i)
        if is_chunked:
            c.send(b"0\r\n\r\n")
        assert c.response().status == 200
    assert len(lags) == 8 and sorted(lags)[5] < at_most(SOON * SLOWNESS, stamps[0], 0) and max(lags) < at_most(SOON, stamps[0]), lags


def test_both_ways_at_once(proxy, origin):
    """A conversation: each chunk of the request is answered by one of the response before the next is sent."""
    def serve(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            size = int(conn.line(), 16)
            data = conn.need(size + 2)[:-2]
            if size == 0:
                break
            conn.send(b"%x\r\n%b\r\n" % (size + 1, b">" + data))
        conn.send(b"0\r\n\r\n")
        conn.fill()
    u = origin(on_connection=serve)
    with proxy().client() as c:
        c.send(f"POST {u.url()} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        head = c.head()
        for word in (b"one", b"two", b"three" * 5000, b"four"):
            c.send(b"%x\r\n%b\r\n" % (len(word), word))
            got = b""
            while len(got) < len(word) + 1:
                size = int(c.line(head), 16)
                got += c.exactly(size + 2, head)[:-2]
            assert got == b">" + word
        c.send(b"0\r\n\r\n")
        assert c.exactly(5, head) == b"0\r\n\r\n"


# --- an answer before the end of the upload

def test_final_answer_during_an_upload_reaches_the_client(proxy, origin):
    def serve(conn):
        conn.read_head()
        conn.need(100000)
        conn.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        conn.hold()
    u = origin(on_connection=serve)
    p = proxy(**UNBUFFERED)
    with p.no_leak(), p.client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 40}\r\n\r\n", BLOCK[:200000])
        with took(0, 0.2):
            r = c.response()
        assert (r.status, r.body, r.header("Connection")) == (413, b"big", "close")
        # A client that goes on sending finds the connection closed, and the answer was there before.
        assert c.closed()
    assert p.access()["status"] == 413 and u.n == 1


def test_final_answer_reaches_a_client_that_only_looks_after_its_upload(proxy, origin):
    def serve(conn):
        conn.read_head()
        conn.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
        conn.hold()
    u = origin(on_connection=serve)
    with proxy().client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
        try:
            for _ in range(30):
                c.send(BLOCK[:100000])
                time.sleep(0.002)
        except OSError:
            pass
        r = c.response()
    assert (r.status, r.body) == (401, b"no")


def test_early_answer_that_lasts_as_long_as_the_upload(proxy, origin):
    """The head comes first, the body when the upload is over: neither side is cut."""
    def serve(conn):
        request = conn.read_head()
        conn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        conn.read_body(request)
        conn.send(b"3\r\nend\r\n0\r\n\r\n")
        conn.fill()
    u = origin(on_connection=serve)
    p = proxy(**UNBUFFERED)
    with p.client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert (head := c.head()).status == 200
        for _ in range(10):
            c.send(BLOCK[:100000])
            time.sleep(0.01)
        c.body(head)
        assert head.body == b"end"
    assert u.requests[0].complete and u.requests[0].body == BLOCK[:100000] * 10


@pytest.mark.parametrize("status", [401, 413])
def test_curl_is_spared_the_body_that_nobody_wants(proxy, origin, tmp_path, status):
    def serve(conn):
        conn.read_head()
        conn.send(f"HTTP/1.1 {status} No\r\nContent-Length: 3\r\n\r\nno\n")
        conn.hold()
    u = origin(on_connection=serve)
    p = proxy()
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.truncate(1 << 30)
    with took(0, 0.5):
        out = subprocess.run(["curl", "-sS", "-x", p.url, "-T", big, "-H", "Expect: 100-continue", "-w", "%{http_code} %{size_upload}", u.url()],
                             capture_output=True, text=True, timeout=20, env=environment())
    assert out.stdout == f"no\n{status} 0" and out.returncode == 0, out
    assert u.received().endswith(b"\r\n\r\n")


def test_abandoned_upload_frees_the_origin(proxy, origin):
    u = origin(reply(200))
    p = proxy(**UNBUFFERED)
    with p.no_leak():
        c = p.client()
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", BLOCK[:1000])
        u.wait(n=1)
        until(lambda: u.received().endswith(BLOCK[900:1000]), 1)
        c.close()
        u.connections[0].wait_ended(0.5)
    assert not u.requests[0].complete


@pytest.mark.parametrize("is_chunked", [False, True])
def test_upload_is_over_with_its_last_byte(proxy, origin, is_chunked):
    """Whatever the pauses: then the client has nothing more to send, isn't called slow, and its connection is kept."""
    def serve(conn):
        conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        while (request := conn.read_head()) is not None:
            conn.sleep(0.1)
            conn.read_body(request)
            conn.sleep(0.5)
            body = b"%d" % len(request.body)
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    u = origin(on_connection=serve)
    p = proxy(**UNBUFFERED, client={"body_idle_timeout": "300ms"})
    clients = [p.client() for _ in range(6)]
    sizes = [70_000, 500_000, 3_000_000, 6_000_001, 65536 * 40, 10_000_000]

    def upload(c, n):
        if is_chunked:
            c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            c.send(b"%x\r\n%b\r\n0\r\n\r\n" % (n, (BLOCK * 10)[:n]))
        else:
            c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n", (BLOCK * 10)[:n])
    threads = [threading.Thread(target=upload, args=pair) for pair in zip(clients, sizes)]
    for t in threads:
        t.start()
    for c, n, t in zip(clients, sizes, threads):
        r = c.response()
        t.join()
        assert (r.status, r.body, r.header("Connection")) == (200, b"%d" % n, None)
        assert c.silent(0.02)
        c.close()
    assert p.metric("evenkeel_cancelled_total") == 0
