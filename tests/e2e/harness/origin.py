"""Scripted origins: a server that does exactly what a test says, byte by byte, and keeps everything it got.

    origin = Origin(reply(503), reply(200, b"done"))    # first request, second and further ones
    origin = Origin(lambda x: x.reply(200, x.request.body))
    origin = Origin(on_connection=lambda conn: ...)     # raw: the function owns the connection

origin.n    requests of which at least one byte came (N)
origin.k    connections accepted (K)
origin.requests, origin.connections    in the order of their arrival
"""
import select
import socket
import struct
import threading
import time

from .tools import patience, until

REASONS = {200: "OK", 201: "Created", 204: "No Content", 304: "Not Modified", 404: "Not Found", 429: "Too Many Requests",
           500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}


class Stopped(Exception):
    """The peer or the test ended the connection."""


class Request:
    def __init__(self, n, connection):
        self.n, self.connection = n, connection
        self.method = self.target = self.version = None
        self.headers = []
        self.body = b""
        self.trailers = []
        self.head = b""         # the raw bytes of the head
        self.framing = None     # none | length | chunked
        self.complete = False
        self.at = time.monotonic()

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name, default=None):
        values = self.all(name)
        assert len(values) <= 1, f"{name} occurs {len(values)} times: {values}"
        return values[0] if values else default

    def __repr__(self):
        return f"<request {self.n} on connection {self.connection.k}: {self.method} {self.target}>"


class Connection:
    def __init__(self, origin, sock, k):
        self.origin, self.socket, self.k = origin, sock, k
        self.received = b""     # every byte
        self.buffer = b""       # of these, what no request took yet
        self.ended = None       # None | eof | reset: how the peer ended it
        self.ended_at = None
        self.opened_at = time.monotonic()

    # --- receiving

    def fill(self):
        """Waits for more bytes; False when the peer has ended the connection."""
        while self.ended is None:
            if self.origin.stopping:
                raise Stopped
            if not select.select([self.socket], [], [], 0.05)[0]:
                continue
            try:
                data = self.socket.recv(262144)
            except ConnectionError:
                self._end("reset")
                return False
            if not data:
                self._end("eof")
                return False
            self.received += data
            self.buffer += data
            return True
        return False

    def _end(self, how):
        self.ended, self.ended_at = how, time.monotonic()

    def need(self, n):
        while len(self.buffer) < n:
            if not self.fill():
                raise Stopped
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise Stopped
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def read_head(self):
        """The head of the next request; None when the peer ends the connection instead."""
        while not self.buffer:
            if not self.fill():
                return None
        request = self.origin._new_request(self)
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                raise Stopped
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        request.head = head + b"\r\n\r\n"
        lines = head.decode("latin-1").split("\r\n")
        request.method, request.target, request.version = lines[0].split(" ")
        request.headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
        return request

    def read_body(self, request):
        coding, length = request.header("Transfer-Encoding"), request.header("Content-Length")
        assert not (coding and length), f"the request has both framings: {request.headers}"
        if coding is not None:
            assert coding.lower() == "chunked", coding
            request.framing = "chunked"
            while True:
                size = int(self.line().split(b";")[0], 16)
                if size == 0:
                    break
                request.body += self.need(size)
                assert self.need(2) == b"\r\n"
            while True:
                line = self.line()
                if not line:
                    break
                name, _, value = line.decode("latin-1").partition(":")
                request.trailers.append((name, value.strip()))
        elif length is not None:
            request.framing = "length"
            request.body = self.need(int(length))
        else:
            request.framing = "none"
        request.complete = True

    def read_request(self):
        request = self.read_head()
        if request is not None:
            self.read_body(request)
        return request

    # --- sending

    def send(self, *parts):
        for part in parts:
            try:
                self.socket.sendall(part if isinstance(part, bytes) else part.encode("latin-1"))
            except ConnectionError:
                self._end("reset")
                raise Stopped from None
        return self

    def drip(self, data, every=0.1, size=1):
        """Sends data in small pieces."""
        for start in range(0, len(data), size):
            self.send(data[start:start + size])
            self.sleep(every)

    def sleep(self, seconds):
        """Waits, but ends when the origin is stopped."""
        if self.origin.stop_event.wait(seconds):
            raise Stopped

    # --- ending

    def reset(self):
        """RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        raise Stopped

    def close(self):
        self.socket.close()
        raise Stopped

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def hold(self):
        """Does nothing until the peer ends the connection (.ended_at) or the test is over."""
        while self.fill():
            pass
        raise Stopped

    def wait_ended(self, timeout=2.0):
        """For the test's thread: waits until the peer has ended the connection; the instant."""
        until(lambda: self.ended is not None, timeout, f"the end of upstream connection {self.k}")
        return self.ended_at


class Exchange:
    """One request and the means to answer it."""

    def __init__(self, connection, request):
        self.connection, self.request, self.n, self.k = connection, request, request.n, connection.k
        for name in ("send", "drip", "sleep", "reset", "close", "half_close", "hold"):
            setattr(self, name, getattr(connection, name))

    def reply(self, status=200, body=b"", headers=(), chunked=None, length=True, reason=None, version="HTTP/1.1", trailers=()):
        """A whole response. chunked: a list of chunks; length=False leaves Content-Length out."""
        lines = [f"{version} {status} {reason if reason is not None else REASONS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if chunked is not None:
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunked) + b"0\r\n" + \
                "".join(f"{name}: {value}\r\n" for name, value in trailers).encode() + b"\r\n"
        elif length and status not in (204, 304) and status >= 200 and \
                not any(name.lower() == "content-length" for name, _ in headers):
            lines.append(f"Content-Length: {len(body)}")
        if self.request.method == "HEAD":
            body = b""
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)


# Steps of a script.

def reply(status=200, body=b"", headers=(), **more):
    return lambda x: x.reply(status, body, headers, **more)


def raw(data, then="keep"):
    """Bytes as they are; then: keep | close | reset | hold."""
    def step(x):
        x.send(data)
        if then != "keep":
            getattr(x, then)()
    return step


def rst():
    return lambda x: x.reset()


def close():
    return lambda x: x.close()


def hold():
    return lambda x: x.hold()


def delay(seconds, step):
    def later(x):
        x.sleep(seconds)
        step(x)
    return later


class Origin:
    def __init__(self, *steps, on_connection=None, host="127.0.0.1", port=0, tls=None, backlog=512):
        assert bool(steps) != bool(on_connection)
        self.steps, self.on_connection, self.tls = steps, on_connection, tls
        self.requests, self.connections, self.faults = [], [], []
        self.lock = threading.Lock()
        self.stop_event = threading.Event()
        self.threads = []
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((host, port))
        self.socket.listen(backlog)
        self.host, self.port = self.socket.getsockname()[:2]
        self.authority = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def url(self, path="/", host=None):
        return f"http://{host + ':' + str(self.port) if host else self.authority}{path}"

    @property
    def n(self):
        return len(self.requests)

    @property
    def k(self):
        return len(self.connections)

    @property
    def stopping(self):
        return self.stop_event.is_set()

    @property
    def targets(self):
        return [request.target for request in self.requests]

    def wait(self, n=None, k=None, timeout=2.0):
        """Waits for so many requests or connections."""
        if n is not None:
            until(lambda: self.n >= n, timeout, f"request {n} at the origin (there were {self.n})")
        if k is not None:
            until(lambda: self.k >= k, timeout, f"connection {k} at the origin (there were {self.k})")
        return self

    def received(self):
        """All bytes of all connections."""
        return b"".join(connection.received for connection in self.connections)

    def _new_request(self, connection):
        with self.lock:
            request = Request(len(self.requests) + 1, connection)
            self.requests.append(request)
        return request

    def _accept(self):
        while not self.stopping:
            try:
                if not select.select([self.socket], [], [], 0.05)[0]:
                    continue
                sock, _ = self.socket.accept()
            except (OSError, ValueError):
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, sock):
        if self.tls:
            try:
                sock.settimeout(patience(5))
                sock = self.tls.wrap_socket(sock, server_side=True)
            except OSError as fault:
                self.tls_fault = fault
                sock.close()
                return
        with self.lock:
            connection = Connection(self, sock, len(self.connections) + 1)
            self.connections.append(connection)
        try:
            sock.settimeout(patience(20))
            if self.on_connection:
                self.on_connection(connection)
            else:
                while True:
                    request = connection.read_request()
                    if request is None:
                        break
                    step = self.steps[min(request.n, len(self.steps)) - 1]
                    step(Exchange(connection, request))
        except (Stopped, TimeoutError, ValueError) as fault:
            if isinstance(fault, ValueError) and sock.fileno() >= 0:
                self.faults.append(fault)
        except Exception as fault:  # noqa: BLE001 - shown by stop()
            if not self.stopping:
                self.faults.append(fault)
        finally:
            sock.close()

    def shut(self):
        """No longer listens; connections stay."""
        self.socket.close()

    def stop(self):
        self.stop_event.set()
        self.socket.close()
        for connection in self.connections:
            try:
                connection.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.acceptor.join(2)
        for thread in self.threads:
            thread.join(2)
        if self.faults:
            raise self.faults[0]
