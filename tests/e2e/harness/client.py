"""A client that sends exactly the bytes it is told to and reads strictly what comes back."""
import socket
import struct
import time

from .tools import patience


class Incomplete(Exception):
    """The connection ended (EOF or reset) before the message did. .response: what there was; .how: eof | reset."""

    def __init__(self, response, how):
        super().__init__(f"the response broke off ({how}) after {len(response.body)} body bytes")
        self.response, self.how = response, how


class Response:
    def __init__(self):
        self.version = self.status = self.reason = None
        self.headers = []      # (name, value) as they came
        self.body = b""
        self.trailers = []
        self.interim = []      # Response objects of 1xx replies before this one
        self.framing = None    # none | length | chunked | close
        self.chunks = []       # sizes, when chunked
        self.raw_head = b""
        self.first_byte_at = None

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name, default=None):
        """The one value of a field; two of them are a fault."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} occurs {len(values)} times: {values}"
        return values[0] if values else default

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        import json
        return json.loads(self.body)

    @property
    def attempts(self):
        return int(self.header("Evenkeel-Attempts", "-1"))

    def __repr__(self):
        return f"<{self.version} {self.status} {self.headers} {self.body[:200]!r}>"


class Client:
    def __init__(self, address, timeout=10, source=None):
        """address: (host, port), or a path for a Unix socket."""
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(patience(timeout))
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, patience(timeout), source)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.eof = None  # None | "eof" | "reset"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- sending

    def send(self, *parts):
        for part in filter(None, parts):
            self.socket.sendall(part if isinstance(part, bytes) else part.encode("latin-1"))
        return self

    def request(self, method, url, headers=(), body=None, version="HTTP/1.1", host=None, chunked=None):
        """Sends one request; url is the request target as it stands. host=False leaves the Host header out."""
        lines = [f"{method} {url} {version}"]
        if host is None and not any(name.lower() == "host" for name, _ in headers):
            host = url.split("://", 1)[1].split("/", 1)[0].split("?", 1)[0].split("@")[-1] if "://" in url else "localhost"
        if host:
            lines.append(f"Host: {host}")
        lines += [f"{name}: {value}" for name, value in headers]
        if chunked is not None:
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunked) + b"0\r\n\r\n"
        elif body is not None and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers):
            lines.append(f"Content-Length: {len(body)}")
        return self.send("\r\n".join(lines) + "\r\n\r\n", body or b"")

    def get(self, url, headers=(), **more):
        """One whole exchange: GET, and the response."""
        return self.request("GET", url, headers, **more).response("GET")

    def fetch(self, method, url, headers=(), body=None, **more):
        return self.request(method, url, headers, body, **more).response(method)

    # --- receiving

    def fill(self):
        """Reads what there is; False at the end of the connection."""
        if self.eof:
            return False
        try:
            data = self.socket.recv(262144)
        except ConnectionError:
            self.eof = "reset"
            return False
        if not data:
            self.eof = "eof"
            return False
        self.buffer += data
        return True

    def line(self, response):
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise Incomplete(response, self.eof)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def exactly(self, n, response):
        """The next n bytes; on a broken connection what came of them goes to response.body."""
        while len(self.buffer) < n:
            if not self.fill():
                response.body += self.buffer
                raise Incomplete(response, self.eof)
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def fields(self, response):
        fields = []
        while True:
            line = self.line(response)
            if not line:
                return fields
            name, colon, value = line.partition(b":")
            assert colon and name and name == name.strip(), f"bad header line {line!r}"
            fields.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))

    def head(self):
        """The next response head, 1xx or not."""
        response = Response()
        line = self.line(response)
        response.first_byte_at = time.monotonic()
        version, _, rest = line.partition(b" ")
        assert version in (b"HTTP/1.1", b"HTTP/1.0"), f"bad status line {line!r}"
        status, _, reason = rest.partition(b" ")
        assert len(status) == 3 and status.isdigit(), f"bad status line {line!r}"
        response.version, response.status, response.reason = version.decode(), int(status), reason.decode("latin-1")
        response.headers = self.fields(response)
        return response

    def response(self, method="GET"):
        """The next final response, complete. Raises Incomplete when it breaks off."""
        interim = []
        response = self.head()
        while 100 <= response.status < 200 and response.status != 101:
            interim.append(response)
            response = self.head()
        response.interim = interim
        self.body(response, method)
        return response

    def body(self, response, method="GET"):
        coding, length = response.header("Transfer-Encoding"), response.header("Content-Length")
        assert not (coding and length), "both Transfer-Encoding and Content-Length"
        if method == "HEAD" or response.status in (204, 304) or response.status < 200 or \
                (method == "CONNECT" and response.status < 300):
            response.framing = "none"
        elif coding is not None:
            assert coding.lower() == "chunked", coding
            response.framing = "chunked"
            while True:
                size = int(self.line(response).split(b";")[0], 16)
                if size == 0:
                    break
                response.body += self.exactly(size, response)
                response.chunks.append(size)
                assert self.exactly(2, Response()) == b"\r\n"
            response.trailers = self.fields(response)
        elif length is not None:
            assert length.isdigit(), length
            response.framing = "length"
            response.body = self.exactly(int(length), response)
        else:
            response.framing = "close"
            while self.fill():
                pass
            response.body, self.buffer = self.buffer, b""
            if self.eof == "reset":
                raise Incomplete(response, "reset")

    def rest(self):
        """Everything until the connection ends."""
        while self.fill():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def closed(self, timeout=2.0):
        """True when the peer ends the connection in time without sending anything more."""
        before = self.socket.gettimeout()
        self.socket.settimeout(patience(timeout))
        try:
            while self.fill():
                pass
            return self.buffer == b""
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(before)

    def silent(self, seconds=0.1):
        """True when nothing comes and the connection stays open for so long."""
        if self.buffer or self.eof:
            return False
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self.fill()
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(before)

    # --- ending

    def shut(self):
        """Ends the sending side only."""
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def reset(self):
        """Ends the connection with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()
