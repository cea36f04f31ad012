"""Local ports (`upstreams[].listen`): for clients that know no proxy and only a base URL."""
import http.client
import subprocess
import urllib.request

import pytest

from harness import Client, close, delay, free_port, problem, reply, run_evenkeel, took


def entry(u, authority=None, **more):
    """An upstream named sdk, by TLS when there is an authority, on a local port."""
    base = {"name": "sdk", "match": {"hosts": ["localhost"]}, "listen": "127.0.0.1:0"}
    if authority:
        return {**base, "port": u.port, "tls": {"originate": "on", "ca_file": authority.ca}, **more}
    return {**base, "match": {"hosts": ["localhost"], "ports": [u.port]}, **more}


def local(p, name="sdk"):
    return "%s:%d" % p.upstream_address(name)


@pytest.mark.parametrize("secure", [True, False], ids=["tls", "plain"])
def test_origin_form(proxy, origin, authority, secure):
    """http://127.0.0.1:9001/x is https://host/x: Host rewritten, all else as it came."""
    u = origin(lambda x: x.reply(200, x.request.body), tls=authority.server() if secure else None)
    p = proxy(upstreams=[entry(u, authority if secure else None)])
    with Client(p.upstream_address("sdk")) as c:
        r = c.fetch("PUT", "/v1/a%2fb/../c?q=%20&&x", [("X-Mixed-Case", "a  b"), ("x-mixed-case", "2")], host=local(p), body=b"data")
        assert (r.status, r.body, r.header("Evenkeel-Upstream")) == (200, b"data", "sdk")
        assert c.fetch("GET", "/second", host="whatever.test").status == 200
    first, second = u.requests
    assert (first.method, first.target, first.version) == ("PUT", "/v1/a%2fb/../c?q=%20&&x", "HTTP/1.1")
    assert first.header("Host") == second.header("Host") == f"localhost:{u.port}"
    assert first.all("X-Mixed-Case") == ["a  b", "2"] and u.k == 1
    scheme = "https" if secure else "http"
    assert p.access()["url"] == f"{scheme}://localhost:{u.port}/v1/a%2fb/../c" and p.access()["upstream"] == "sdk"


def test_host_without_a_port(proxy, authority):
    """443 isn't named in Host; here nothing listens on it."""
    p = proxy(upstreams=[{"name": "sdk", "match": {"hosts": ["LocalHost"]}, "tls": {"originate": "on"}, "listen": "127.0.0.1:0"}],
              defaults={"retry": {"max_attempts": 1}})
    with Client(p.upstream_address("sdk")) as c:
        assert "127.0.0.1:443" in problem(c.get("/x", host=local(p)), 502, "connection_refused", upstream="sdk")["detail"]
    assert p.access()["url"].lower() == "https://localhost/x"


def test_absolute_redirects_are_left_as_they_are(proxy, origin, authority):
    places = ["https://localhost/next", "http://localhost:1/x?y#z", "/relative", "//other.test/", "HTTPS://LOCALHOST:443/a%2Fb"]
    u = origin(*[reply(302, b"", [("Location", place), ("Content-Location", place), ("Refresh", f"0; url={place}"),
                                  ("Set-Cookie", "a=b; Domain=localhost; Secure; Path=/")]) for place in places], tls=authority.server())
    p = proxy(upstreams=[entry(u, authority)])
    with Client(p.upstream_address("sdk")) as c:
        for place in places:
            r = c.get("/", host=local(p))
            assert r.status == 302 and r.header("Location") == place and r.header("Content-Location") == place
            assert r.header("Refresh") == f"0; url={place}" and r.header("Set-Cookie") == "a=b; Domain=localhost; Secure; Path=/"


def test_the_whole_policy_holds(proxy, origin, authority):
    """Retries by status, routes, deadlines, body checks: what a tunnel can't have."""
    u = origin(reply(503, b"", [("Connection", "close")]), close(), reply(200, b"third"), reply(503), delay(2, reply(200)), tls=authority.server())
    p = proxy(upstreams=[entry(u, authority, timeouts={"total": "300ms"},
                               routes=[{"match": {"methods": ["GET"], "paths": ["/once/*"]}, "retry": {"max_attempts": 1}}])])
    with Client(p.upstream_address("sdk")) as c:
        r = c.get("/a", host=local(p))
        assert (r.status, r.body, r.attempts) == (200, b"third", 3)
        r = c.get("/once/a", host=local(p))
        assert (r.status, r.attempts) == (503, 1)
        with took(0.3, 0.35):
            problem(c.get("/slow", host=local(p)), 504, "http_response_timeout", upstream="sdk")
    assert p.access(3) and ["route" in line for line in p.logs("request")] == [False, True, False] and p.metric("evenkeel_requests_total", upstream="sdk", code="200") == 1


def test_other_forms_of_target(proxy, origin, authority):
    """An absolute form that names the local port is the upstream; OPTIONS * crosses; CONNECT is a proxy's business."""
    u = origin(reply(200, b"x"), tls=authority.server())
    p = proxy(upstreams=[entry(u, authority)])
    with Client(p.upstream_address("sdk")) as c:
        assert c.get(f"http://{local(p)}/abs?1").body == b"x"
        assert c.fetch("OPTIONS", "*", host=local(p)).status == 200
    assert u.targets == ["/abs?1", "*"] and {q.header("Host") for q in u.requests} == {f"localhost:{u.port}"}


def test_http_1_0_and_no_host(proxy, origin, authority):
    u = origin(reply(200, b"x"), tls=authority.server())
    p = proxy(upstreams=[entry(u, authority)])
    with Client(p.upstream_address("sdk")) as c:
        r = c.fetch("GET", "/old", version="HTTP/1.0", host=False)
        assert r.body == b"x" and c.closed()
    with Client(p.upstream_address("sdk")) as c:
        problem(c.fetch("GET", "/new", host=False), 400, "http_request_error")
    assert u.targets == ["/old"] and u.requests[0].header("Host") == f"localhost:{u.port}"


def test_upstream_that_also_is_asked_by_proxy(proxy, origin, authority):
    """Both ways lead to one origin: one pool, one name in the metrics."""
    u = origin(reply(200, b"x"), tls=authority.server())
    p = proxy(upstreams=[entry(u, authority)])
    with Client(p.upstream_address("sdk")) as c:
        assert c.get("/1", host=local(p)).body == b"x"
    assert p.get("http://localhost/2").body == b"x" and u.k == 1
    assert p.metric("evenkeel_requests_total", upstream="sdk", code="200") == 2


def test_several_local_ports(proxy, origin, authority):
    a, b = (origin(reply(200, name), tls=authority.server()) for name in (b"a", b"b"))
    hosts = {"a": "localhost", "b": "127.0.0.1"}
    p = proxy(upstreams=[{"name": name, "match": {"hosts": [hosts[name]]}, "port": u.port, "listen": "127.0.0.1:0",
                          "tls": {"originate": "on", "ca_file": authority.ca}} for name, u in (("a", a), ("b", b))])
    for name, u in (("a", a), ("b", b)):
        with Client(p.upstream_address(name)) as c:
            assert c.get("/", host=local(p, name)).body == name.encode()
        assert u.requests[0].header("Host") == f"{hosts[name]}:{u.port}"
    assert len({p.upstream_address(name) for name in "ab"} | {p.address, p.admin}) == 4


def test_base_url_of_python_s_own_clients(proxy, origin, authority):
    u = origin(lambda x: x.reply(200, x.request.target.encode(), chunked=None), tls=authority.server())
    p = proxy(upstreams=[entry(u, authority)])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{local(p)}/v1/things?x=1", timeout=5) as r:
        assert r.read() == b"/v1/things?x=1"
    connection = http.client.HTTPConnection(*p.upstream_address("sdk"), timeout=5)
    for i in range(3):
        connection.request("POST", f"/{i}", body=iter([b"a", b"b"]), headers={"Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert connection.getresponse().read() == f"/{i}".encode()
    connection.close()
    done = subprocess.run(["curl", "-sS", "--noproxy", "*", f"http://{local(p)}/curl"], capture_output=True, timeout=10, check=False)
    assert done.stdout == b"/curl" and done.returncode == 0


def test_port_that_appears_changes_and_goes_by_reload(proxy, origin, authority):
    u = origin(reply(200, b"x"), tls=authority.server())
    ports = [free_port(), free_port()]
    p = proxy(upstreams=[entry(u, authority, listen=f"127.0.0.1:{ports[0]}")])
    with Client(("127.0.0.1", ports[0])) as old:
        assert old.get("/1", host="x").body == b"x"
        p.write({"upstreams": [entry(u, authority, listen=f"127.0.0.1:{ports[1]}")]})
        assert p.hup()["result"] == "ok"
        with Client(("127.0.0.1", ports[1])) as new:
            assert new.get("/2", host="x").body == b"x"
        with pytest.raises(ConnectionRefusedError):
            Client(("127.0.0.1", ports[0]))
        p.write({})
        assert p.hup()["result"] == "ok"
    with pytest.raises(ConnectionRefusedError):
        Client(("127.0.0.1", ports[1]))
    assert u.k == 1


def test_policy_that_cannot_be(tmp_path):
    """A local port stands for one host: a pattern names none."""
    file = tmp_path / "policy.yaml"
    file.write_text('upstreams:\n- name: a\n  match: {hosts: ["*.a.test"]}\n  listen: 127.0.0.1:9001\n')
    done = run_evenkeel("check", file)
    assert done.returncode == 1 and f"{file}:4:" in done.stdout and "listen" in done.stdout


def test_explain_knows_the_local_port(proxy, origin, authority):
    u = origin(reply(200), tls=authority.server())
    port = free_port()
    p = proxy(upstreams=[entry(u, authority, listen=f"127.0.0.1:{port}")])
    r = p.explain(f"http://127.0.0.1:{port}/v1/x")
    assert r.status == 200 and "upstream: sdk" in r.text.replace('"upstream":"sdk"', "upstream: sdk"), r.text
