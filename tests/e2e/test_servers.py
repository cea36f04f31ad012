"""Real servers as origins, and Java's client: dialects that no script of ours speaks by itself."""
import functools
import gzip
import http.server
import os
import shutil
import subprocess
import threading
import time

import pytest

from harness import Incomplete, took
from harness.proxy import ROOT, environment

HERE = os.path.join(ROOT, "tests", "e2e")


# --- Python's http.server

class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        if self.path == "/length":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])
        if self.path != "/length":
            self.close_connection = True


@pytest.fixture(params=["HTTP/1.0", "HTTP/1.1"])
def python_server(request, tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 2000)
    handler = type("H", (Handler,), {"protocol_version": request.param})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(tmp_path)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_python_http_server(proxy, python_server):
    p = proxy()
    with p.no_leak(), p.client() as c:
        for _ in range(2):
            r = c.get(python_server + "/file")
            assert r.status == 200 and r.body == bytes(range(256)) * 2000 and r.framing == "length"
            assert r.header("Server").startswith("SimpleHTTP") and r.header("Last-Modified")
            assert c.fetch("HEAD", python_server + "/file").header("Content-Length") == "512000"
            assert c.get(python_server + "/nothing").status == 404
            assert c.fetch("POST", python_server + "/length", body=b"abc").body == b"cba"
            assert c.fetch("POST", python_server + "/close", body=b"abc").body == b"cba"
            r = c.get(python_server + "/file", [("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")])
            assert r.status in (200, 304)


# --- Node's http server

@pytest.fixture
def node_server():
    if not shutil.which("node"):
        pytest.skip("NOT TESTED: node is needed")
    server = subprocess.Popen(["node", os.path.join(HERE, "node", "server.js")], stdout=subprocess.PIPE, text=True, env=environment())
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_node_http_server(proxy, node_server):
    p = proxy()
    with p.no_leak(), p.client() as c:
        assert c.fetch("PUT", node_server + "/echo", body=b"x" * 300_000).body == b"x" * 300_000
        assert c.request("PUT", node_server + "/echo", chunked=[b"a", b"b" * 70_000]).response().body == b"a" + b"b" * 70_000
        c.send(f"PUT {node_server}/trailers HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Went: there\r\n\r\n")
        r = c.response()
        assert r.body == b"abc" and ("X-Sum", "3") in r.trailers and ("X-Came", "there") in r.trailers
        r = c.get(node_server + "/hints")
        assert r.body == b"hinted" and [i.status for i in r.interim] == [103] and r.interim[0].header("Link") == "</a.css>; rel=preload"
        assert c.get(node_server + "/big").body == b"".join(bytes([i]) * 100_000 for i in range(50))
        assert c.get(node_server + "/empty").status == 204
        c.send(f"PUT {node_server}/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert c.head().status == 100
        assert c.send("hello").response().body == b"hello"
        with pytest.raises(Incomplete):
            c.get(node_server + "/break")
    with p.client() as c:
        c.send(f"PUT {node_server}/refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
        with took(0, 0.2):
            r = c.response()
        assert (r.status, r.body, r.interim) == (413, b"big", [])
    with p.client() as c:
        head = c.request("GET", node_server + "/up", [("Connection", "Upgrade"), ("Upgrade", "echo")]).send(b"early").head()
        assert head.status == 101 and c.exactly(5, head) == b"early"
        c.send(b"late")
        assert c.exactly(4, head) == b"late"


def test_node_closes_idle_connections_after_what_it_announced(proxy, node_server):
    """Its Keep-Alive: timeout=1 is heeded: a POST finds no connection that is about to be closed."""
    p = proxy()
    with p.client() as c:
        for pause in (0.2, 0.9, 1.45):
            assert c.fetch("POST", node_server + "/echo", body=b"x").status == 200
            time.sleep(pause)
        r = c.fetch("POST", node_server + "/echo", body=b"y")
        assert r.status == 200 and r.attempts == 1


# --- nginx

def test_nginx_with_everything_on(proxy, nginx):
    n = nginx(http="gzip on; gzip_min_length 1; gzip_types *; gzip_proxied any; keepalive_timeout 5s 5s; client_max_body_size 100k;",
              server="location /up { return 200 \"took\\n\"; } location /echo { return 200 $request_uri; } location /close { keepalive_timeout 0; return 200 x; }")
    p = proxy()
    url = n.file("text", b"hello " * 5000)
    with p.no_leak(), p.client() as c:
        plain, packed = c.get(url), c.get(url, [("Accept-Encoding", "gzip")])
        assert plain.body == b"hello " * 5000 and plain.header("Content-Encoding") is None
        assert packed.header("Content-Encoding") == "gzip" and gzip.decompress(packed.body) == plain.body and packed.framing == "chunked"
        assert c.get(n.url("/echo/%2Fx%2f?a=%20+b&&")).body == b"/echo/%2Fx%2f?a=%20+b&&"
        for _ in range(3):
            assert c.get(n.url("/close")).body == b"x"
        r = c.fetch("HEAD", url)
        assert r.status == 200 and r.header("Content-Length") == "30000"
    with p.client() as c:  # 413 before the body is there
        c.send(f"PUT {n.url('/up')} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n", b"x" * 100_000)
        assert c.response().status == 413


# --- Java

def test_java_http_client(proxy, origin):
    if not shutil.which("java") or "jdk.compiler" not in subprocess.run(["java", "--list-modules"], capture_output=True, text=True).stdout:
        pytest.skip("NOT TESTED: a JDK is needed")

    def serve(x):
        first = x.request.header("Evenkeel-Previous-Attempts") is None
        if x.request.target == "/503" and first:
            x.reply(503, b"no")
        elif x.request.target == "/reset" and first:
            x.reset()
        elif x.request.target == "/chunked":
            x.reply(200, chunked=[b"chu", b"nked"])
        elif x.request.target == "/broken":
            x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\npart")
            x.close()
        else:
            x.reply(200, x.request.method.encode() + b" " + x.request.body)
    u = origin(serve)
    p = proxy()
    done = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", os.path.join(HERE, "java", "Client.java"), str(p.port), u.url("")],
                          capture_output=True, text=True, timeout=35, env=environment())
    assert done.returncode == 0, done
    assert done.stdout.splitlines() == ["200 GET  2", "200 GET  2", "200 chunked 1", "200 POST abc 1", "200 PUT abcd 1", "200 PUT expected 1",
                                        "20", "broken"]
    assert all(q.header("Upgrade") is None and q.header("HTTP2-Settings") is None for q in u.requests)
