"""The real undici, and Node's built-in fetch by way of it: plain http:// through CONNECT, with the full policy inside."""
import json
import os
import re
import subprocess
import time

import pytest

from harness import SLOWNESS, at_most, until
from harness.npm import SOURCE, node_modules
from harness.proxy import environment
from harness.websocket import EchoServer

# Package and the way the proxy is told: as any program does it.
WAYS = [("undici", "agent"), ("undici", "tunnel"), ("undici", "env"), ("undici-6", "agent"), ("undici-6", "global")]


@pytest.fixture(scope="module")
def modules():
    return node_modules()


def run(modules, way, p, u, scenario, *more):
    done = subprocess.run(["node", os.path.join(SOURCE, "undici.js"), *way, p.url, f"http://127.0.0.1:{u.port}" if u else "-", *more, scenario],
                          capture_output=True, text=True, timeout=20, env=environment({"NODE_PATH": modules}))
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def serve(x):
    first = x.request.header("Evenkeel-Previous-Attempts") is None
    path = x.request.target
    if path.startswith("/503") and first:
        x.reply(503, b"no")
    elif path.startswith("/reset") and first:
        x.reset()
    elif path == "/down":
        x.reply(503, b"down")
    elif path == "/chunked":
        x.reply(200, chunked=[b"chu", b"nked"])
    elif path == "/hold":
        x.hold()
    elif path == "/trailers":
        x.reply(200, chunked=[x.request.body], trailers=[("X-Sum", "9")])
    elif path == "/broken":
        x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        x.reset()
    elif path == "/events":
        x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(15):
            x.sleep(0.03)
            event = b"data: %d\n\n" % (time.time() * 1000)
            x.send(b"%x\r\n%b\r\n" % (len(event), event))
        x.send(b"0\r\n\r\n")
    else:
        x.reply(200, x.request.method.encode() + b" " + x.request.body)


def test_the_lock_file_names_no_host():
    with open(os.path.join(SOURCE, "package-lock.json"), encoding="utf-8") as stream:
        text = stream.read()
    assert "resolved" not in text and "://" not in text and re.search(r'"integrity": "sha512-', text)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_requests_get_the_full_policy(proxy, origin, modules, way):
    u = origin(serve)
    p = proxy()
    with p.no_leak():
        out = run(modules, way, p, u, "everything")
    assert out == [[200, "GET ", "2"], [200, "GET ", "2"], [200, "chunked", "1"], [200, "POST abc", "1"],
                   [200, "PUT abc" + "def" * 20000, "1"], [200, "", "1"], [503, "down", "1"]]
    assert all(q.header("Host") == u.authority for q in u.requests)
    assert [q.target for q in u.requests][:4] == ["/503", "/503", "/reset?q=%20x", "/reset?q=%20x"]
    assert len({q.header("X-Request-Id") for q in u.requests}) == 7, "each has an id of its own, whatever its attempts"
    assert p.metric("evenkeel_retries_total") == 2 and p.metric("evenkeel_opaque_tunnels_total") == 0


@pytest.mark.parametrize("way", [("undici", "tunnel"), ("undici-6", "agent"), ("undici-6", "global")], ids="-".join)
def test_it_is_connect_that_they_use(proxy, origin, modules, way):
    u = origin(serve)
    p = proxy(egress={"tunnel_http": "off"})
    done = subprocess.run(["node", os.path.join(SOURCE, "undici.js"), *way, p.url, f"http://127.0.0.1:{u.port}", "parallel"],
                          capture_output=True, text=True, timeout=20, env=environment({"NODE_PATH": modules}))
    assert done.returncode == 1 and "403" in done.stderr, done
    assert u.k == 0 and p.access()["method"] == "CONNECT" and p.access()["status"] == 403


@pytest.mark.parametrize("way", [("undici", "agent"), ("undici-6", "global")], ids="-".join)
def test_in_parallel(proxy, origin, modules, way):
    u = origin(serve)
    p = proxy(defaults={"pool": {"max_connections": 5}})
    assert run(modules, way, p, u, "parallel") == [200] * 30
    assert u.k <= 5 and u.n == 30


@pytest.mark.parametrize("way", [("undici", "agent"), ("undici-6", "global")], ids="-".join)
def test_events_as_they_come(proxy, origin, modules, way):
    u = origin(serve)
    start = time.monotonic()
    lags = sorted(run(modules, way, proxy(), u, "events"))
    assert len(lags) == 15 and lags[10] <= 1000 * at_most(0.025 * SLOWNESS, start, 0) and lags[-1] < 1000 * at_most(0.2 * SLOWNESS, start, 0), lags


@pytest.mark.parametrize("way", [("undici", "agent"), ("undici-6", "global")], ids="-".join)
def test_an_abort_reaches_the_origin(proxy, origin, modules, way):
    u = origin(serve)
    p = proxy()
    with p.no_leak():
        assert run(modules, way, p, u, "abort") == "AbortError"
        u.connections[0].wait_ended(0.5)
    p.wait_metric("evenkeel_cancelled_total", 1)
    assert u.n == 1


@pytest.mark.parametrize("way", [("undici", "agent"), ("undici-6", "agent")], ids="-".join)
def test_trailers_and_breaks_are_seen(proxy, origin, modules, way):
    u = origin(serve)
    p = proxy()
    assert run(modules, way, p, u, "request") == [200, "abc", {"x-sum": "9"}]
    assert run(modules, way, p, u, "broken") == "TypeError"


def test_websocket_through_its_proxy_agent(proxy, modules):
    """Also by CONNECT, and inside it an Upgrade."""
    with EchoServer() as server:
        p = proxy()
        assert run(modules, ("undici", "agent"), p, None, "websocket", server.url) == [[5, 100000], 1000]
        until(lambda: p.metric("evenkeel_tunnels_active") == 0, 1)
        assert server.n == 1
