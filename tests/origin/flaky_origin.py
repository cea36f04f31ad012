#!/usr/bin/env python3
"""A small origin that misbehaves on purpose and always in the same way. Standard library only.

    flaky_origin.py [--host 127.0.0.1] [--port 8080]

  /ok             200 at once
  /flaky?n=1      503 for the first n requests with the same key, then 200
  /reset?n=1      the connection is reset for the first n requests with the same key, then 200
  /close?n=1      the connection is closed without an answer for the first n, then 200
  /cut?n=1        a body that breaks off half-way for the first n, then 200
  /wait?s=1&n=1   503 with Retry-After: s for the first n, then 200
  /slow?ms=500    200 after so long;  with n=1 only the first n are slow
  /drip?bytes=20&ms=100   a body of so many bytes, one at a time
  /events?n=5&ms=200      server-sent events
  /status/NNN     that status, always
  /inbox?n=1      POST: takes the body in, once for each Idempotency-Key, but then resets the first n connections with that
                  key before it has answered;  GET: what it took in, and how often it came (JSON)
  /echo           the request's method and body
  /counts         how many requests each key has made (JSON)

The key is what makes repeated attempts one request: the parameter key=..., else the X-Request-Id header, else the path.
"""
import argparse
import json
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

counts = {}
inbox = {}
lock = threading.Lock()
LIMIT_SECONDS = 60
MAX_KEYS = 10000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "flaky-origin"
    sys_version = ""
    timeout = LIMIT_SECONDS
    disable_nagle_algorithm = True  # head and body are two writes

    def log_message(self, format, *args):  # noqa: A002 - the signature is given
        if self.server.verbose:
            sys.stderr.write("origin: %s\n" % (format % args))

    def parameter(self, name, default):
        return self.query.get(name, [default])[0]

    def number(self, name, default):
        try:
            return min(max(0.0, float(self.parameter(name, default))), 1e6)
        except ValueError:
            return float(default)

    def is_bad(self):
        """True for the first n requests with this key."""
        key = self.parameter("key", None) or self.headers.get("X-Request-Id") or self.path
        with lock:
            if len(counts) >= MAX_KEYS:
                counts.clear()
            self.nth = counts[key] = counts.get(key, 0) + 1
        return self.nth <= self.number("n", 1)

    def answer(self, status, body, headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def good(self):
        self.answer(200, f"fine, on attempt {self.nth}\n")

    def leave(self, is_reset):
        if is_reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def handle_any(self):
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.nth = 1
        length = self.headers.get("Content-Length", "0")
        self.body = self.rfile.read(int(length)) if length.isdigit() else b""
        name = url.path.strip("/").split("/")[0]
        action = getattr(self, "do_path_" + name, None) if name.isalpha() else None
        if action is None:
            self.answer(404, "no such path\n")
        else:
            action(url.path)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = handle_any

    def do_path_ok(self, _):
        self.answer(200, "ok\n")

    def do_path_flaky(self, _):
        if self.is_bad():
            self.answer(503, "not now\n")
        else:
            self.good()

    def do_path_reset(self, _):
        if self.is_bad():
            self.leave(is_reset=True)
        else:
            self.good()

    def do_path_close(self, _):
        if self.is_bad():
            self.leave(is_reset=False)
        else:
            self.good()

    def do_path_cut(self, _):
        if self.is_bad():
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
            self.wfile.flush()
            self.leave(is_reset=False)
        else:
            self.good()

    def do_path_wait(self, _):
        if self.is_bad():
            self.answer(503, "later\n", [("Retry-After", str(int(self.number("s", 1))))])
        else:
            self.good()

    def do_path_slow(self, _):
        if self.is_bad() or "n" not in self.query:
            time.sleep(min(self.number("ms", 500) / 1000, LIMIT_SECONDS))
        self.good()

    def do_path_drip(self, _):
        n = int(min(self.number("bytes", 20), 100000))
        self.send_response(200)
        self.send_header("Content-Length", str(n))
        self.end_headers()
        for _ in range(n):
            self.wfile.write(b".")
            self.wfile.flush()
            time.sleep(self.number("ms", 100) / 1000)

    def do_path_events(self, _):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(int(min(self.number("n", 5), 1000))):
            event = f"data: {i}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
            time.sleep(self.number("ms", 200) / 1000)
        self.wfile.write(b"0\r\n\r\n")

    def do_path_status(self, path):
        status = path.rpartition("/")[2]
        ok = status.isdigit() and 200 <= int(status) <= 599
        self.answer(int(status) if ok else 400, f"{status}\n" if ok else "which status?\n")

    def do_path_inbox(self, _):
        if self.command == "GET":
            with lock:
                self.answer(200, json.dumps(inbox) + "\n", [("Content-Type", "application/json")])
            return
        key = self.headers.get("Idempotency-Key")
        if not key:
            self.answer(400, "an Idempotency-Key is wanted\n")
            return
        with lock:
            if len(inbox) >= MAX_KEYS:
                inbox.clear()
            event = inbox.setdefault(key, {"body": self.body.decode("utf-8", "replace"), "came": 0})
            event["came"] += 1
            self.nth = event["came"]
        if self.nth <= self.number("n", 1):
            self.leave(is_reset=True)
        else:
            self.answer(200, "new\n" if self.nth == 1 else "known\n")

    def do_path_echo(self, _):
        self.answer(200, self.command.encode() + b" " + self.body + b"\n")

    def do_path_counts(self, _):
        with lock:
            self.answer(200, json.dumps(counts) + "\n", [("Content-Type", "application/json")])


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    verbose = False

    def shutdown_request(self, request):
        try:
            super().shutdown_request(request)
        except OSError:
            pass

    def handle_error(self, request, client_address):
        # A peer that left, or a connection that this very script broke.
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description="an origin that misbehaves on purpose")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0: any, printed")
    parser.add_argument("--verbose", action="store_true", help="a line for each request")
    arguments = parser.parse_args()
    server = Server((arguments.host, arguments.port), Handler)
    server.verbose = arguments.verbose
    print(f"flaky origin on http://{arguments.host}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
