"""The bytes of tunnels: in order, bounded, counted, inside the kernel where there are many, and ended as either side ends them."""
import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

from harness import BIN, SLOWNESS, Client, at_most, problem, reply, took, until

IS_PLAIN = SLOWNESS == 1 and "asan" not in BIN
OPEN = {"egress": {"connect_ports": "any"}}
BLOCK = os.urandom(1 << 20)
N = 10 << 20


def connect(p, u, more="", then=b""):
    c = Client(p.address)
    c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: {u.authority}\r\n{more}\r\n", then)
    r = c.response("CONNECT")
    assert r.status == 200, r
    return c


def echo(conn):
    try:
        while (data := conn.socket.recv(262144)):
            if len(conn.received) < 65536:
                conn.received += data
            conn.socket.sendall(data)
        conn.socket.shutdown(socket.SHUT_WR)
    except ConnectionError:
        pass  # reset: some tests want just that


def n_pipes(p):
    """Ends of pipes that the proxy holds."""
    n = 0
    for fd in os.listdir(f"/proc/{p.pid}/fd"):
        try:
            n += os.readlink(f"/proc/{p.pid}/fd/{fd}").startswith("pipe:")
        except OSError:
            pass
    return n


# --- what it looks like

def test_answer_to_connect(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN)
    with p.client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nX: 1\r\n\r\n")
        r = c.response("CONNECT")
        assert (r.status, r.version) == (200, "HTTP/1.1")
        names = [name.lower() for name, _ in r.headers]
        assert not {"content-length", "transfer-encoding", "connection", "date", "content-type"} & set(names)
        assert r.header("Evenkeel-Attempts") == "1" and r.header("Via").startswith("1.1 evenkeel (")
        c.send("x")
        assert c.exactly(1, r) == b"x"
        assert c.silent(0.05)
    assert u.received() == b"x", "not a byte of the head"


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
def test_old_clients_may_connect_too(proxy, origin, version):
    u = origin(on_connection=echo)
    with proxy(**OPEN).client() as c:
        c.send(f"CONNECT {u.authority} {version}\r\nHost: x\r\n\r\nfirst")
        r = c.response("CONNECT")
        assert r.status == 200 and c.exactly(5, r) == b"first"


def test_first_bytes_of_any_size_are_kept_in_order(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN)
    for n in (1, 4, 70_000, 700_000):
        c = Client(p.address)
        sender = threading.Thread(target=lambda: c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n", BLOCK[:n]))
        sender.start()
        r = c.response("CONNECT")
        assert r.status == 200 and c.exactly(n, r) == BLOCK[:n]
        sender.join()
        c.close()


def test_origin_that_speaks_first(proxy, origin):
    u = origin(on_connection=lambda conn: (conn.send(b"220 ready\r\n"), conn.hold()))
    c = connect(proxy(**OPEN), u)
    assert c.exactly(11, None) == b"220 ready\r\n"
    c.close()


def test_connect_that_comes_byte_by_byte(proxy, origin):
    u = origin(on_connection=echo)
    with proxy(**OPEN).client() as c:
        for byte in f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\nab":
            c.send(byte)
        r = c.response("CONNECT")
        assert r.status == 200 and c.exactly(2, r) == b"ab"


def test_connect_after_requests_on_the_same_connection(proxy, origin):
    u, v = origin(reply(200, b"x")), origin(on_connection=echo)
    with proxy(**OPEN).client() as c:
        assert c.get(u.url()).body == b"x"
        c.send(f"CONNECT {v.authority} HTTP/1.1\r\nHost: x\r\n\r\nab")
        r = c.response("CONNECT")
        assert r.status == 200 and c.exactly(2, r) == b"ab"


# --- many bytes

@pytest.mark.parametrize("slow", ["client", "origin", "both"])
def test_ten_mebibytes_each_way_through_slow_readers(proxy, origin, slow):
    sums = {}

    def read(sock, n, is_slow, name, first=b""):
        digest, got = hashlib.sha256(first), len(first)
        while got < n:
            data = sock.recv(min(65536, n - got))
            assert data, (name, got)
            digest.update(data)
            got += len(data)
            if is_slow:
                time.sleep(0.003)
        sums[name] = digest.hexdigest()

    def write(sock):
        for _ in range(N >> 20):
            sock.sendall(BLOCK)

    def serve(conn):
        conn.socket.settimeout(20)
        if slow in ("origin", "both"):
            conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        writer = threading.Thread(target=write, args=(conn.socket,))
        writer.start()
        read(conn.socket, N, slow in ("origin", "both"), "up")
        writer.join()
    u = origin(on_connection=serve)
    p = proxy(**OPEN)
    with p.no_leak():
        c = connect(p, u)
        if slow in ("client", "both"):
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        before, peak = p.rss(), [0]
        writer = threading.Thread(target=write, args=(c.socket,))
        writer.start()
        over = threading.Event()

        def watch():
            while not over.wait(0.01):
                peak[0] = max(peak[0], p.rss())
        watcher = threading.Thread(target=watch)
        watcher.start()
        read(c.socket, N, slow in ("client", "both"), "down", c.buffer)
        writer.join()
        until(lambda: "up" in sums, 10)
        over.set()
        watcher.join()
        c.close()
    right = hashlib.sha256(BLOCK * (N >> 20)).hexdigest()
    assert sums == {"up": right, "down": right}
    assert peak[0] - before < (4 << 20 if IS_PLAIN else 100 << 20), peak[0] - before
    p.wait_metric("evenkeel_tunnel_bytes_total", 2 * N)
    line = p.access()
    assert (line["request_bytes"], line["response_bytes"]) == (N, N)


def test_busy_tunnels_go_through_the_kernel(proxy, origin):
    """Bulk is spliced: pipes are there while it flows, and given back when it has been quiet."""
    box = {}

    def serve(conn):
        box["conn"] = conn
        total = 0
        while total < 200 << 20 and (n := conn.socket.recv_into(bytearray(1 << 20))):
            total += n
        conn.send(b"thanks")
        conn.hold()
    u = origin(on_connection=serve)
    p = proxy(**OPEN)
    at_rest = n_pipes(p)
    c = connect(p, u)
    c.send("small talk")
    time.sleep(0.05)
    assert n_pipes(p) == at_rest, "not worth a pipe"
    for _ in range(200):
        c.socket.sendall(BLOCK)
    assert n_pipes(p) == at_rest + 2
    assert c.exactly(6, None) == b"thanks"
    until(lambda: n_pipes(p) == at_rest, 3, "the pipe given back")
    assert p.metric("evenkeel_tunnel_bytes_total") == (200 << 20) + len("small talk") + len("thanks")
    c.close()


def test_busy_tunnels_splice(proxy, origin, tmp_path):
    """The same seen from outside, where strace may look."""
    if not shutil.which("strace"):
        pytest.skip("NOT TESTED: strace is needed")
    u = origin(on_connection=echo)
    p = proxy(**OPEN)
    out = tmp_path / "calls"
    c = connect(p, u)
    strace = subprocess.Popen(["strace", "-f", "-c", "-o", out, "-p", str(p.pid)], stderr=subprocess.PIPE, text=True)
    first = strace.stderr.readline()
    if "attached" not in first:
        strace.kill()
        pytest.skip(f"NOT TESTED: {first.strip()}")
    writer = threading.Thread(target=lambda: [c.socket.sendall(BLOCK) for _ in range(64)])
    writer.start()
    got = 0
    while got < 64 << 20:
        got += len(c.socket.recv(1 << 20))
    writer.join()
    strace.send_signal(2)
    strace.communicate(timeout=5)
    c.close()
    calls = {}
    for line in out.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit():
            calls[fields[-1]] = int(fields[3])
    copied = calls.get("recvfrom", 0) + calls.get("sendto", 0) + calls.get("sendmsg", 0) + calls.get("read", 0)
    assert calls.get("splice", 0) > 200 and copied < calls["splice"] / 2, calls


# --- ends

def test_each_side_may_end_its_sending_first(proxy, origin):
    """Bytes after the other side's end, both ways, and the ends where they belong."""
    ends = []

    def serve(conn):
        conn.send(b"hi")
        while conn.fill():
            pass
        ends.append(conn.ended)
        for _ in range(5):
            conn.send(BLOCK[:200_000])
            conn.sleep(0.01)
        conn.half_close()
    u = origin(on_connection=serve)
    p = proxy(**OPEN)
    with p.no_leak():
        c = connect(p, u)
        c.send(BLOCK[:500_000]).shut()
        assert c.rest() == b"hi" + BLOCK[:200_000] * 5 and c.eof == "eof"
        c.close()
    assert ends == ["eof"] and u.received() == BLOCK[:500_000]


@pytest.mark.parametrize("who", ["client", "origin"])
def test_reset_reaches_the_other_side_also_when_it_is_blocked(proxy, origin, who):
    """One side resets while the bytes of the other are stuck behind a reader that doesn't read."""
    def serve(conn):
        if who == "client":
            try:
                while True:
                    conn.send(BLOCK)
            finally:
                ended.append(time.monotonic())
        conn.fill()
        conn.sleep(0.3)
        conn.reset()
    ended = []
    u = origin(on_connection=serve)
    p = proxy(**OPEN)
    with p.no_leak():
        c = connect(p, u)
        if who == "client":
            time.sleep(0.2)
            start = time.monotonic()
            c.reset()
            until(lambda: ended, 1)
            assert ended[0] - start < at_most(0.05, start)
        else:
            c.socket.settimeout(3)
            start = time.monotonic()
            with pytest.raises(ConnectionError):
                while True:
                    c.socket.sendall(BLOCK)
            assert 0.25 < time.monotonic() - start < at_most(0.45, start)
            c.close()


def test_idle_is_counted_over_both_ways(proxy, origin):
    """Bytes one way only keep a tunnel from being idle; none at all, and it ends."""
    def serve(conn):
        for _ in range(5):
            conn.sleep(0.2)
            conn.send(b"x")
        conn.hold()
    u = origin(on_connection=serve)
    p = proxy(**OPEN, defaults={"timeouts": {"tunnel_idle": "400ms"}})
    c = connect(p, u)
    with took(1.4, 1.6):
        assert c.rest() == b"xxxxx"
    p.wait_metric("evenkeel_timeouts_total", 1, kind="tunnel_idle")
    u.connections[0].wait_ended(0.5)


def test_tunnel_total_cuts_a_busy_one(proxy, origin):
    u = origin(on_connection=lambda conn: conn.drip(b"x" * 1000, every=0.02))
    p = proxy(**OPEN, defaults={"timeouts": {"tunnel_total": "300ms"}})
    with took(0.3, 0.45):
        c = connect(p, u)
        c.rest()
        assert c.eof == "reset", "what is cut off in the middle must not look complete"
    p.wait_metric("evenkeel_timeouts_total", 1, kind="tunnel_total")


# --- drain, counters, reload

def test_drain_waits_for_tunnels_no_longer_than_its_timeout(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN, drain={"timeout": "500ms"})
    c = connect(p, u)
    p.term()
    with took(0.4, 0.6):
        time.sleep(0.1)
        c.send("still there")
        assert c.exactly(11, None) == b"still there"
        assert p.wait_exit() == 3
    c.rest()


def test_drain_ends_with_the_last_tunnel(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN, drain={"timeout": "5s"})
    c = connect(p, u)
    p.term()
    time.sleep(0.1)
    assert p.process.poll() is None
    with took(0, 0.3):
        c.close()
        assert p.wait_exit() == 0


def test_counters_of_tunnels(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN, upstreams=[{"name": "t", "match": {"hosts": ["127.0.0.1"]}}])
    a, b = connect(p, u), connect(p, u)
    p.wait_metric("evenkeel_tunnels_active", 2, upstream="t")
    a.send(b"12345")
    assert a.exactly(5, None) == b"12345"
    samples = p.metrics()
    by_direction = {dict(labels)["direction"]: value for (name, labels), value in samples.items()
                    if name == "evenkeel_tunnel_bytes_total" and dict(labels)["upstream"] == "t"}
    assert len(by_direction) == 2 and set(by_direction.values()) == {5}, "counted while it lasts, and without the 200's own bytes"
    a.close()
    p.wait_metric("evenkeel_tunnels_active", 1, upstream="t")
    b.close()
    p.wait_metric("evenkeel_tunnels_active", 0, upstream="t")
    assert p.metric("evenkeel_opaque_tunnels_total", upstream="t") == 2
    assert p.metric("evenkeel_pool_connections", state="active") == 0 and p.metric("evenkeel_in_flight") == 0
    lines = [p.access(n, method="CONNECT") for n in (1, 2)]
    assert sorted(line["request_bytes"] for line in lines) == [0, 5] and all(line["status"] == 200 for line in lines)


def test_reload_leaves_tunnels_alone(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN)
    c = connect(p, u)
    p.write({"egress": {"connect_ports": [443], "tunnel_http": "off", "deny_addresses": ["127.0.0.0/8"]}})
    assert p.hup()["result"] == "ok"
    c.send("alive")
    assert c.exactly(5, None) == b"alive"
    with p.client() as d:
        d.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert d.response("CONNECT").status == 403
    c.close()


def test_many_tunnels_at_once(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(**OPEN, defaults={"pool": {"max_connections": 200, "max_in_flight": 200}})
    faults = []

    def work(i):
        try:
            c = connect(p, u)
            data = BLOCK[i:i + 100_000]
            c.send(data)
            assert c.exactly(len(data), None) == data
            c.close()
        except Exception as fault:  # noqa: BLE001
            faults.append(fault)
    with p.no_leak():
        threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert faults == []


# --- HTTP inside

def test_policy_inside_a_tunnel_is_that_of_its_authority(proxy, origin):
    u, v = origin(lambda x: x.hold()), origin(reply(200, b"other"))
    p = proxy(upstreams=[{"name": "slow", "match": {"hosts": ["127.0.0.1"]}, "timeouts": {"total": "200ms"}}])
    c = connect(p, u)
    with took(0.2, 0.25):
        problem(c.fetch("GET", "/", host=v.authority), 504, "http_response_timeout", upstream="slow")
    assert c.fetch("GET", "/", host="x", headers=[("Evenkeel-Timeout", "bogus")]).status == 400
    c.close()
    assert v.n == 0 and p.access(1)["upstream"] == "slow"


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), b"SSH-2.0-x\r\n", b"\0\0\0\0",
                                   b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"EHLO x\r\n"])
def test_other_protocols_inside_are_closed(proxy, origin, first):
    u = origin(on_connection=echo)
    p = proxy(client={"header_timeout": "500ms"})
    with p.no_leak():
        c = connect(p, u)
        c.send(first)
        with took(0, 0.4):
            answer = c.rest()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 "), answer
        c.close()
    assert u.k == 0


def test_tunnel_of_which_nothing_is_made_ends_as_an_idle_client(proxy, origin):
    u = origin(on_connection=echo)
    p = proxy(client={"idle_timeout": "300ms"})
    c = connect(p, u)
    with took(0.3, 0.5):
        assert c.closed()
    assert u.k == 0


@pytest.mark.parametrize("version,field", [("HTTP/1.0", ""), ("HTTP/1.1", "Connection: close\r\n"), ("HTTP/1.1", "Proxy-Connection: close\r\n"),
                                           ("HTTP/1.0", "Connection: keep-alive\r\n")])
def test_what_the_connect_says_of_its_connection_is_no_matter_inside(proxy, origin, version, field):
    u = origin(lambda x: x.reply(200, x.request.target.encode()))
    with proxy().client() as c:
        c.send(f"CONNECT {u.authority} {version}\r\nHost: {u.authority}\r\n{field}\r\nGET /eager HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("CONNECT").status == 200
        assert c.response().body == b"/eager"
        for path in ("/1", "/2"):
            assert c.fetch("GET", path, host="x").body == path.encode()
        assert c.fetch("CONNECT", u.authority, host="x").status == 400 and c.closed()
