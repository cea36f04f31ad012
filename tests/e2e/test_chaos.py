"""
Many clients and one origin, all misbehaving at once, from fixed seeds. Whatever happens, an answer is exactly the right one for its
request or an honest error or abort, the origin never gets a request that nobody sent, and afterwards everything was given back.

Each request names in its path what the origin is to do with its first, second and third attempt; its id is in the path, in a
header and in its body, and every byte of both bodies follows from it.
"""
import hashlib
import os
import random
import signal
import threading
import time

import pytest
from harness import Incomplete, SLOWNESS, patience


def stream(name, size):
    """Bytes that only this name has, and no other at the same place."""
    if size == 0:
        return b""
    word = hashlib.sha256(name.encode()).hexdigest().encode()
    return (word * (size // len(word) + 1))[:size]


# --- the origin: what it does with a request, by the letter its path gives

def read_body(x, request):
    x.read_body(request)
    fault = None
    if request.body != stream("up-" + request.header("X-Id"), int(request.header("X-Size"))):
        fault = f"another body arrived: {request} {request.body[:80]!r}"
    if fault:
        x.origin.faults.append(AssertionError(fault))


class Script:
    """Serves one connection."""

    def __init__(self, seed):
        self.seed = seed
        self.attempts, self.sent = {}, set()
        self.lock = threading.Lock()

    def __call__(self, conn):
        while True:
            request = conn.read_head()
            if request is None:
                return
            _, ident, letters, size = request.target.split("/")
            if request.header("X-Id") != ident or ident not in self.sent:
                conn.origin.faults.append(AssertionError(f"a request that nobody sent: {request.head!r}"))
            with self.lock:
                n = self.attempts[ident] = self.attempts.get(ident, 0) + 1
            letter = letters[min(n, len(letters)) - 1]
            try:
                getattr(self, "do_" + letter)(conn, request, ident, int(size))
            except OSError:
                return  # the proxy has gone

    @staticmethod
    def head(ident, size, status=200, more=""):
        length = "" if size is None else f"Content-Length: {size}\r\n"
        return f"HTTP/1.1 {status} Done\r\nX-Echo: {ident}\r\n{length}{more}\r\n".encode()

    def whole(self, conn, request, ident, size, status=200, more="", tail=b""):
        body = b"" if request.method == "HEAD" else stream("down-" + ident, size)
        conn.send(self.head(ident, size, status, more) + body + tail)

    def do_o(self, conn, request, ident, size):  # all right
        read_body(conn, request)
        self.whole(conn, request, ident, size)

    def do_l(self, conn, request, ident, size):  # late
        read_body(conn, request)
        conn.sleep(random.Random(ident).uniform(0.02, 0.15))
        self.whole(conn, request, ident, size)

    def do_c(self, conn, request, ident, size):  # chunked, in odd pieces
        read_body(conn, request)
        conn.send(self.head(ident, None, more="Transfer-Encoding: chunked\r\n"))
        if request.method == "HEAD":
            return
        rng, body = random.Random(ident), stream("down-" + ident, size)
        while body:
            n = rng.randint(1, max(1, size // 3))
            conn.send(b"%x;x=1\r\n%s\r\n" % (len(body[:n]), body[:n]))
            body = body[n:]
        conn.send(b"0\r\nX-Late: " + ident.encode() + b"\r\n\r\n")

    def do_i(self, conn, request, ident, size):  # interim answers first
        conn.send(b"HTTP/1.1 103 Early Hints\r\nX-Echo: " + ident.encode() + b"\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        self.do_o(conn, request, ident, size)

    def do_e(self, conn, request, ident, size):  # ended by close
        read_body(conn, request)
        conn.send(self.head(ident, None) + (b"" if request.method == "HEAD" else stream("down-" + ident, size)))
        conn.close()

    def do_k(self, conn, request, ident, size):  # all right, then closed without a word
        self.do_o(conn, request, ident, size)
        conn.close()

    def do_x(self, conn, request, ident, size):  # bytes that nobody asked for behind the answer
        read_body(conn, request)
        # In one piece: what comes only once the next request is under way is past telling from its answer.
        self.whole(conn, request, ident, size, tail=b"HTTP/1.1 200 Poison\r\nX-Echo: poison\r\nContent-Length: 6\r\n\r\npoison")

    def do_b(self, conn, request, ident, size):  # busy
        read_body(conn, request)
        self.whole(conn, request, ident, size % 700, 503)

    def do_y(self, conn, request, ident, size):  # busy, said before the body was read
        self.whole(conn, request, ident, size % 700, 503, "Connection: close\r\n")
        conn.half_close()
        conn.hold()

    def do_r(self, conn, request, ident, size):  # reset before the answer
        conn.reset()

    def do_f(self, conn, request, ident, size):  # closed before the answer
        read_body(conn, request)
        conn.close()

    def do_h(self, conn, request, ident, size):  # half an answer
        read_body(conn, request)
        body = self.head(ident, size + 1) + stream("down-" + ident, size)
        conn.send(body[:random.Random(ident).randrange(len(body))])
        conn.close()

    def do_g(self, conn, request, ident, size):  # garbage
        read_body(conn, request)
        conn.send(b"\x16\x03\x01 220 hello\r\n\r\n")

    def do_s(self, conn, request, ident, size):  # says nothing
        conn.hold()


GOOD = "olcike"       # letters that give a whole answer (x too, but what follows it breaks the connection)
BAD = "byrfhgs"


# --- the clients

class Swarm:
    def __init__(self, seed, proxy, origin, script):
        self.seed, self.proxy, self.origin, self.script = seed, proxy, origin, script
        self.faults, self.n_done, self.kinds = [], 0, {}
        self.lock = threading.Lock()

    def plan(self, rng, ident):
        letters = "".join(rng.choice(GOOD + "x" if rng.random() < 0.65 else BAD) for _ in range(3))
        method = rng.choice(("GET", "GET", "PUT", "POST", "DELETE", "HEAD"))
        size = rng.choice((0, 1, 100, 1023, 1024, 1025, 5000, 70000, 300000))
        up = rng.choice((0, 1, 511, 512, 513, 5000, 66000, 200000)) if method in ("PUT", "POST") else 0
        return {"id": ident, "letters": letters, "method": method, "size": size, "up": up,
                "chunked": up > 0 and rng.random() < 0.5, "expect": up > 0 and rng.random() < 0.2}

    def encode(self, rng, plan):
        """(head, body) as bytes."""
        lines = [f"{plan['method']} {self.origin.url('/{id}/{letters}/{size}'.format(**plan))} HTTP/1.1", "Host: elsewhere",
                 f"X-Id: {plan['id']}", f"X-Request-Id: {plan['id']}", f"X-Size: {plan['up']}"]
        body = stream("up-" + plan["id"], plan["up"])
        if plan["expect"]:
            lines.append("Expect: 100-continue")
        if plan["chunked"]:
            lines.append("Transfer-Encoding: chunked")
            parts, rest = [], body
            while rest:
                n = rng.randint(1, max(1, len(body) // 2))
                parts.append(b"%x\r\n%s\r\n" % (len(rest[:n]), rest[:n]))
                rest = rest[n:]
            body = b"".join(parts) + b"0\r\n\r\n"
        elif plan["up"] > 0:
            lines.append(f"Content-Length: {plan['up']}")
        self.script.sent.add(plan["id"])
        return ("\r\n".join(lines) + "\r\n\r\n").encode(), body

    def judge(self, plan, response):
        """None, or what is wrong with this answer."""
        if response.header("X-Request-Id") != plan["id"]:
            return f"the answer is of {response.header('X-Request-Id')}"
        echo = response.header("X-Echo")
        for interim in response.interim:
            if interim.status == 103 and interim.header("X-Echo") != plan["id"]:
                return f"a foreign interim answer {interim}"
        if echo is None:
            if response.status not in (408, 502, 503, 504) or response.header("Content-Type") != "application/problem+json":
                return f"neither the origin's nor an error of the proxy: {response}"
            if plan["method"] != "HEAD" and response.json()["request_id"] != plan["id"]:
                return f"the error is of another request: {response.body!r}"
            return None
        if echo != plan["id"] or response.status not in (200, 503):
            return f"the answer of another request: {response}"
        size = plan["size"] if response.status == 200 else plan["size"] % 700
        if plan["method"] != "HEAD" and response.body != stream("down-" + plan["id"], size):
            return f"{len(response.body)} bytes that are not the {size} of this request: {response.status} {response.body[:80]!r}"
        if any(value != plan["id"] for _, value in response.trailers):
            return f"foreign trailers {response.trailers}"
        return None

    def one(self, rng, client, ident):
        """One exchange. False: the connection is used up."""
        plan = self.plan(rng, ident)
        head, body = self.encode(rng, plan)
        whim = rng.random()
        if whim < 0.06:  # leaves in the middle of sending
            data = head + body
            client.send(data[:rng.randrange(1, len(data) + 1)])
            time.sleep(rng.uniform(0, 0.03))
            client.reset() if rng.random() < 0.5 else client.close()
            return self.count("left while sending")
        if whim < 0.09 and plan["chunked"]:
            client.send(head, body[:len(body) // 2], b"\r\nzz\r\n")
        elif whim < 0.3:
            data, at = head + body, 0
            while at < len(data):
                n = rng.choice((1, 7, 100, 3000, 100000))
                client.send(data[at:at + n])
                at += n
                if rng.random() < 0.1:
                    time.sleep(0.002)
        else:
            client.send(head, body)
        if whim > 0.94:  # leaves while waiting or reading
            time.sleep(rng.uniform(0, 0.08))
            if rng.random() < 0.5:
                client.socket.recv(rng.choice((1, 100, 5000)))
            client.reset() if rng.random() < 0.5 else client.close()
            return self.count("left while waiting")
        if whim > 0.9:
            client.shut()  # taken for a client that has gone
            client.rest()
            return self.count("half-closed")
        try:
            response = client.response(plan["method"])
        except Incomplete as broken:
            if broken.response.status == 200 and set(plan["letters"]) <= set(GOOD):
                self.fault(plan, f"a whole answer broke off: {broken} {broken.response}")
            return self.count("broke off")
        fault = self.judge(plan, response) if response.status != 400 or whim >= 0.09 else None
        if fault:
            self.fault(plan, fault)
        self.count(response.status)
        return response.header("Connection") != "close" and response.framing != "close"

    def fault(self, plan, text):
        with self.lock:
            self.faults.append(f"{plan}: {text}")

    def count(self, kind):
        with self.lock:
            self.n_done += 1
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return False

    def client(self, number, n_requests):
        rng = random.Random(f"{self.seed}-{number}")
        client = None
        for n in range(n_requests):
            try:
                client = client or self.proxy.client(timeout=15)
                if not self.one(rng, client, f"{self.seed}x{number}x{n}"):
                    client.socket.close()
                    client = None
            except ConnectionError:
                client = None
            except (AssertionError, TimeoutError, ValueError) as fault:
                with self.lock:
                    self.faults.append(f"client {number}, request {n}: {type(fault).__name__} {fault}")
                client = None
        if client:
            client.close()

    def run(self, n_clients, n_requests):
        threads = [threading.Thread(target=self.client, args=(i, n_requests), daemon=True) for i in range(n_clients)]
        for thread in threads:
            thread.start()
        return threads


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def settle(p):
    """Everything was given back, and nothing spins."""
    end = time.monotonic() + patience(4)
    keys = ("active", "connecting", "pending", "in_flight", "tunnels", "buffered")
    while True:
        held = p.held()
        if not any(held[key] for key in keys):
            break
        assert time.monotonic() < end, f"not given back: {held}"
        time.sleep(0.05)
    before = cpu_ticks(p.pid)
    time.sleep(0.3)
    assert cpu_ticks(p.pid) - before <= 5, "it spins"


TIGHT = {"limits": {"request_buffer": 512, "buffered_bytes": "64KiB", "upstream_connections": 3},
         "defaults": {"pool": {"max_connections": 2, "max_in_flight": 2, "max_pending": 40, "max_idle": 1},
                      "retry": {"hold_response": 1024, "budget": "off"}}}
HEDGED = {"defaults": {"hedge": {"after": "15ms", "max": 2}, "retry": {"hold_response": 1024, "budget": "off"},
                       "pool": {"max_connections": 6}}}
TROUBLED = {"defaults": {"breaker": {"consecutive": 8, "open_for": "100ms", "half_open": 1},
                         "rate_limit": {"per_second": 150, "burst": 5}, "pool": {"max_lifetime": "200ms", "max_requests": 7}}}


def policy_of(base):
    defaults = {"timeouts": {"total": "2s", "attempt": "600ms", "pool_wait": "1s"}, **base["defaults"]}
    return {**base, "defaults": defaults, "client": {"body_idle_timeout": "3s"}}


@pytest.mark.parametrize("seed, base", [(1, TIGHT), (2, HEDGED), (3, TROUBLED)], ids=["tight", "hedged", "troubled"])
def test_chaos(proxy, origin, seed, base):
    script = Script(seed)
    u = origin(on_connection=script)
    p = proxy(**policy_of(base))
    p.ask("/metrics")
    fds = p.fds()
    swarm = Swarm(seed, p, u, script)
    n_clients, n_requests = 8, max(6, int(int(os.environ.get("EVENKEEL_CHAOS", "18")) / max(1, SLOWNESS)))
    threads = swarm.run(n_clients, n_requests)
    while any(thread.is_alive() for thread in threads):
        p.process.send_signal(signal.SIGHUP)
        time.sleep(0.05)
    assert not swarm.faults, "\n".join(swarm.faults[:10])
    assert swarm.n_done >= n_clients * n_requests * 0.8, swarm.kinds
    assert swarm.kinds.get(200, 0) >= swarm.n_done * 0.1, swarm.kinds
    settle(p)
    idle = p.metric("evenkeel_pool_connections", state="idle")
    assert p.fds() - idle <= fds + 1


def test_chaos_at_the_end(proxy, origin):
    """SIGTERM in the middle of it: whoever is still answered is answered right, and the process ends in time."""
    script = Script(9)
    u = origin(on_connection=script)
    p = proxy(drain={"timeout": "2s"}, **policy_of(HEDGED))
    swarm = Swarm(9, p, u, script)
    threads = swarm.run(8, 6)
    time.sleep(0.4)
    p.term()
    assert p.process.wait(patience(4)) in (0, 3)
    for thread in threads:
        thread.join(patience(5))
    assert not swarm.faults, "\n".join(swarm.faults[:10])
