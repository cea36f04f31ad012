"""Real programs and libraries through the proxy, set up as their users do."""
import asyncio
import json
import shutil
import subprocess

import pytest

from harness import hold, reply
from harness.proxy import environment


def flaky(x):
    """Per path: /503 and /reset fail at first; everything else echoes."""
    first = x.request.header("Evenkeel-Previous-Attempts") is None
    if x.request.target.startswith("/503") and first:
        x.reply(503, b"no")
    elif x.request.target.startswith("/reset") and first:
        x.reset()
    elif x.request.target.startswith("/chunked"):
        x.reply(200, chunked=[b"chu", b"nked"])
    else:
        x.reply(200, x.request.method.encode() + b" " + x.request.body, [("X-Seen", "yes")])


@pytest.fixture
def setup(proxy, origin):
    u = origin(flaky)
    return proxy(), u


def run(*command, env=None, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, env=environment(env), **more)
    assert done.returncode == 0, done
    return done.stdout


# --- curl and wget

def test_curl_x(setup):
    p, u = setup
    assert run("curl", "-sSf", "-x", p.url, u.url("/a")) == "GET "
    assert run("curl", "-sSf", "-x", p.url, u.url("/503")) == "GET "
    assert run("curl", "-sSf", "-x", p.url, u.url("/reset")) == "GET "
    assert run("curl", "-sSf", "-x", p.url, u.url("/chunked")) == "chunked"
    assert [p.access(n)["attempts"] for n in (1, 2, 3, 4)] == [1, 2, 2, 1]


def test_curl_by_environment(setup):
    p, u = setup
    assert run("curl", "-sSf", u.url("/503"), env={"http_proxy": p.url}) == "GET "
    assert p.access()["attempts"] == 2


def test_curl_reuses_its_connection(setup):
    p, u = setup
    out = run("curl", "-sSf", "-x", p.url, "-w", "%{num_connects} ", "-o", "/dev/null", u.url("/1"), "-o", "/dev/null", u.url("/2"),
              "-o", "/dev/null", u.url("/3"))
    assert out.split() == ["1", "0", "0"] and u.k == 1


def test_curl_uploads(setup, tmp_path):
    p, u = setup
    big = tmp_path / "big"
    big.write_bytes(b"u" * 3_000_000)  # above 1 MiB curl sends Expect: 100-continue
    out = run("curl", "-sSf", "-x", p.url, "-T", str(big), u.url("/up"))
    assert out == "PUT " + "u" * 3_000_000
    assert run("curl", "-sSf", "-x", p.url, "-d", "a=1", u.url("/post")) == "POST a=1"
    assert run("curl", "-sSf", "-x", p.url, "-T", "-", u.url("/up"), input="stream") == "PUT stream"


def test_curl_head_and_1_0(setup):
    p, u = setup
    assert "X-Seen: yes" in run("curl", "-sSfI", "-x", p.url, u.url("/h"))
    assert run("curl", "-sSf0", "-x", p.url, u.url("/chunked")) == "chunked"


def test_curl_tunnels_plain_http(setup):
    p, u = setup
    assert run("curl", "-sSf", "-p", "-x", p.url, u.url("/503")) == "GET "
    assert p.access(method="GET")["attempts"] == 2


def test_curl_tls_through_connect(proxy, origin, authority):
    u = origin(reply(200, b"secret"), tls=authority.server())
    p = proxy(egress={"connect_ports": "any"})
    assert run("curl", "-sSf", "--cacert", authority.ca, "-x", p.url, f"https://localhost:{u.port}/x") == "secret"
    assert p.access()["method"] == "CONNECT"


def test_curl_parallel(setup):
    p, u = setup
    out = run("curl", "-sSfZ", "--parallel-max", "20", "-x", p.url, u.url("/[1-60]"))
    assert out == "GET " * 60
    assert u.n == 60


def test_wget(setup):
    p, u = setup
    assert run("wget", "-qO-", "-t", "1", u.url("/503"), env={"http_proxy": p.url}) == "GET "
    assert run("wget", "-qO-", "-t", "1", "--post-data=x=1", u.url("/p"), env={"http_proxy": p.url}) == "POST x=1"


# --- Python

def test_requests(setup):
    import requests
    p, u = setup
    with requests.Session() as s:
        s.trust_env = False
        s.proxies = {"http": p.url}
        assert s.get(u.url("/503"), timeout=5).text == "GET "
        assert s.post(u.url("/x"), data=b"abc", timeout=5).text == "POST abc"
        assert s.get(u.url("/chunked"), timeout=5).text == "chunked"
        assert s.put(u.url("/gen"), data=iter([b"a", b"b"]), timeout=5).text == "PUT ab"
        assert s.head(u.url("/x"), timeout=5).headers["X-Seen"] == "yes"
    assert u.k <= 2


def test_requests_by_environment(setup, monkeypatch):
    import requests
    p, u = setup
    monkeypatch.setenv("http_proxy", p.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    r = requests.get(u.url("/reset"), timeout=5)
    assert r.text == "GET " and r.headers["Evenkeel-Attempts"] == "2"


def test_urllib(setup):
    import urllib.request
    p, u = setup
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": p.url}))
    with opener.open(u.url("/503"), timeout=5) as r:
        assert r.read() == b"GET " and r.headers["Evenkeel-Attempts"] == "2"
    with opener.open(urllib.request.Request(u.url("/x"), data=b"q", method="PUT"), timeout=5) as r:
        assert r.read() == b"PUT q"


def test_http_client(setup):
    import http.client
    p, u = setup
    c = http.client.HTTPConnection(*p.address, timeout=5)
    for _ in range(3):
        c.request("GET", u.url("/503"))
        r = c.getresponse()
        assert r.status == 200 and r.read() == b"GET "
    c.close()
    c = http.client.HTTPConnection(*p.address, timeout=5)
    c.set_tunnel("127.0.0.1", u.port)
    c.request("GET", "/503")
    assert c.getresponse().read() == b"GET "
    c.close()


def test_httpx(setup):
    import httpx
    p, u = setup
    with httpx.Client(proxies={"http://": p.url}, trust_env=False, timeout=5) as c:
        assert c.get(u.url("/503")).text == "GET "
        assert c.post(u.url("/x"), content=b"abc").text == "POST abc"
        with c.stream("GET", u.url("/chunked")) as r:
            assert b"".join(r.iter_bytes()) == b"chunked"


def test_httpx_async(setup):
    import httpx
    p, u = setup

    async def work():
        async with httpx.AsyncClient(proxies=p.url, trust_env=False, timeout=5) as c:
            answers = await asyncio.gather(*[c.get(u.url(f"/{i}")) for i in range(30)])
            return [a.status_code for a in answers]
    assert asyncio.run(work()) == [200] * 30


def test_aiohttp(setup):
    import aiohttp
    p, u = setup

    async def work():
        async with aiohttp.ClientSession() as s:
            async with s.get(u.url("/503"), proxy=p.url) as r:
                first = await r.text()
            async with s.post(u.url("/x"), data=b"abc", proxy=p.url) as r:
                second = await r.text()
            many = await asyncio.gather(*[one(s, i) for i in range(30)])
            return first, second, many

    async def one(s, i):
        async with s.get(u.url(f"/{i}"), proxy=p.url) as r:
            return await r.text()
    first, second, many = asyncio.run(work())
    assert (first, second, set(many)) == ("GET ", "POST abc", {"GET "})


def test_aiohttp_by_environment(setup, monkeypatch):
    import aiohttp
    p, u = setup
    monkeypatch.setenv("http_proxy", p.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    async def work():
        async with aiohttp.ClientSession(trust_env=True) as s:
            async with s.get(u.url("/reset")) as r:
                return await r.text(), r.headers["Evenkeel-Attempts"]
    assert asyncio.run(work()) == ("GET ", "2")


def test_aiohttp_cancel_reaches_the_origin(proxy, origin):
    import aiohttp
    u = origin(hold())
    p = proxy()

    async def work():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as s:
            with pytest.raises(asyncio.TimeoutError):
                async with s.get(u.url(), proxy=p.url) as r:
                    await r.text()
    with p.no_leak():
        asyncio.run(work())
        u.connections[0].wait_ended(0.5)
    p.wait_metric("evenkeel_cancelled_total", 1)


def test_websockets_library(proxy, makers):
    import threading
    import websockets
    ready, box = threading.Event(), {}

    async def serve():
        async def echo(ws):
            async for message in ws:
                await ws.send(message)
        async with websockets.serve(echo, "127.0.0.1", 0) as server:
            box["port"] = server.sockets[0].getsockname()[1]
            box["stop"] = asyncio.Event()
            box["loop"] = asyncio.get_running_loop()
            ready.set()
            await box["stop"].wait()
    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(5)
    p = proxy(egress={"connect_ports": "any"})
    from harness import Client
    c = Client(p.address)
    authority = f"127.0.0.1:{box['port']}"
    c.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
    assert c.response("CONNECT").status == 200

    async def talk():
        async with websockets.connect(f"ws://{authority}/", sock=c.socket) as ws:
            await ws.send("x" * 100000)
            return await ws.recv()
    c.socket.setblocking(False)
    assert asyncio.run(talk()) == "x" * 100000
    box["loop"].call_soon_threadsafe(box["stop"].set)
    thread.join(5)


# --- Node

NODE = """
const http = require('http');
const [proxy, url] = process.argv.slice(-2);
const p = new URL(proxy);
const agent = new http.Agent({keepAlive: true, maxSockets: 4});
function one(path, method, body) {
  return new Promise((resolve, reject) => {
    const u = new URL(path, url);
    const request = http.request({host: p.hostname, port: p.port, path: u.href, method, agent,
      headers: {Host: u.host, ...(body ? {'Content-Length': body.length} : {})}}, response => {
      let text = '';
      response.on('data', d => text += d);
      response.on('end', () => resolve([response.statusCode, text, response.headers['evenkeel-attempts']]));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}
(async () => {
  const out = [];
  out.push(await one('/503', 'GET'));
  out.push(await one('/chunked', 'GET'));
  out.push(await one('/x', 'POST', 'abc'));
  out.push(...await Promise.all([...Array(20)].map((_, i) => one('/' + i, 'GET'))));
  console.log(JSON.stringify(out));
  agent.destroy();
})();
"""

# What undici's ProxyAgent (and so Node's fetch) does also for plain http: CONNECT, then HTTP on that socket.
TUNNEL = """
const http = require('http');
const [proxy, url] = process.argv.slice(-2);
const p = new URL(proxy), u = new URL(url);
http.request({host: p.hostname, port: p.port, method: 'CONNECT', path: u.host}).on('connect', async (answer, socket) => {
  const agent = new http.Agent({keepAlive: true, maxSockets: 1});
  agent.createConnection = () => socket;
  const out = [answer.statusCode];
  for (const path of ['/503', '/chunked', '/reset'])
    out.push(await new Promise((resolve, reject) => http.get({host: u.hostname, port: u.port, path, agent}, response => {
      let text = '';
      response.on('data', d => text += d);
      response.on('end', () => resolve([response.statusCode, text, response.headers['evenkeel-attempts']]));
    }).on('error', reject)));
  console.log(JSON.stringify(out));
  agent.destroy();
}).end();
"""


def node(script, *arguments, env=None):
    assert shutil.which("node"), "node is missing: tests/setup-packages.sh test"
    return json.loads(run("node", "-e", script, "x", *arguments, env=env))


def test_node_http(setup):
    p, u = setup
    out = node(NODE, p.url, u.url())
    assert out[:3] == [[200, "GET ", "2"], [200, "chunked", "1"], [200, "POST abc", "1"]]
    assert [o[:2] for o in out[3:]] == [[200, "GET "]] * 20


def test_node_tunnels_plain_http(setup):
    p, u = setup
    assert node(TUNNEL, p.url, u.url()) == [200, [200, "GET ", "2"], [200, "chunked", "1"], [200, "GET ", "2"]]


# --- a real origin

def test_nginx_origin(proxy, nginx):
    n = nginx(server="location = /redir { return 302 /ok; } location /big { default_type text/plain; }")
    p = proxy()
    with p.client() as c:
        assert c.get(n.url("/ok")).body == b"ok\n"
        assert c.get(n.url("/empty")).status == 204
        r = c.get(n.url("/redir"))
        assert r.status == 302
        r = c.get(n.url("/503"))
        assert r.status == 503 and r.attempts == 3
        url = n.file("range", bytes(range(256)) * 100)
        r = c.get(url, [("Range", "bytes=10-19")])
        assert r.status == 206 and r.body == bytes(range(10, 20)) and r.header("Content-Range") == "bytes 10-19/25600"
        etag = c.get(url).header("ETag")
        assert c.get(url, [("If-None-Match", etag)]).status == 304
        assert c.get(url).body == bytes(range(256)) * 100


def test_nginx_reload_of_keep_alive(proxy, nginx):
    n = nginx(http="keepalive_timeout 1s;")
    import time
    p = proxy()
    with p.client() as c:
        assert c.get(n.url()).status == 200
        time.sleep(1.2)
        r = c.get(n.url())
        assert r.status == 200 and r.attempts == 1
        assert c.fetch("POST", n.url("/ok"), body=b"x").status == 200
