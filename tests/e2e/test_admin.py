"""The admin port: health, metrics, JSON, and who may ask."""
import json
import shutil
import subprocess
import time

import pytest
import yaml

from harness import Client, delay, free_port, hold, reply, run_evenkeel, until


@pytest.fixture
def busy(proxy, origin):
    """A proxy that has seen a bit of everything."""
    u = origin(reply(200), reply(503), reply(200), reply(502), reply(200), reply(404), reply(200, b"x" * 1000))
    p = proxy(upstreams=[{"name": "second", "match": {"hosts": ["localhost"]}}])
    for _ in range(5):
        p.get(u.url())
    p.get(u.url(host="localhost"))
    p.get(f"http://127.0.0.1:{free_port()}/")
    p.origin = u
    return p


@pytest.mark.parametrize("accept", [None, "application/openmetrics-text; version=1.0.0"])
def test_metrics_text(busy, accept):
    r = busy.ask("/metrics", headers=[("Accept", accept)] if accept else [])
    assert (r.status, r.header("Cache-Control"), r.header("X-Content-Type-Options")) == (200, "no-store", "nosniff")
    kind = r.header("Content-Type")
    if accept:
        assert kind.startswith("application/openmetrics-text") and r.text.endswith("# EOF\n")
    else:
        assert kind.startswith("text/plain; version=0.0.4")
    lines = r.text.split("\n")
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    helped = {line.split()[2] for line in lines if line.startswith("# HELP")}
    assert typed == helped and len([line for line in lines if line.startswith("# TYPE")]) == len(typed)


def test_promtool_is_content(busy):
    promtool = shutil.which("promtool")
    assert promtool, "promtool is in Debian's package prometheus: tests/setup-packages.sh checks"
    done = subprocess.run([promtool, "check", "metrics"], input=busy.ask("/metrics").body, capture_output=True, timeout=20)
    assert done.returncode == 0 and done.stderr == b"" and done.stdout == b"", done


NAMES = """evenkeel_requests_total evenkeel_attempts_total evenkeel_retries_total evenkeel_retries_suppressed_total evenkeel_timeouts_total
evenkeel_cancelled_total evenkeel_backoff_seconds_total evenkeel_pool_connections evenkeel_pool_pending evenkeel_in_flight
evenkeel_pool_rejected_total evenkeel_connections_opened_total evenkeel_connections_reused_total evenkeel_breaker_state
evenkeel_hedges_total evenkeel_opaque_tunnels_total evenkeel_tunnels_active evenkeel_tunnel_bytes_total evenkeel_client_connections
evenkeel_buffered_bytes evenkeel_draining evenkeel_config_reloads_total evenkeel_config_last_success_timestamp_seconds
evenkeel_build_info process_cpu_seconds_total process_resident_memory_bytes process_open_fds process_max_fds
process_start_time_seconds""".split()


def test_every_metric_is_there(busy):
    text = busy.ask("/metrics").text
    assert [name for name in NAMES if f"# TYPE {name} " not in text] == []
    for name in ("evenkeel_request_duration_seconds", "evenkeel_attempt_duration_seconds", "evenkeel_attempts_per_request"):
        assert f"# TYPE {name} histogram" in text


def test_metrics_agree_with_what_happened(busy):
    m = busy.metrics()
    def value(name, **labels):
        return busy.metric(name, m, **labels)
    assert value("evenkeel_requests_total", upstream="default", code="200") == 4
    assert value("evenkeel_requests_total", upstream="default", code="404") == 1
    assert value("evenkeel_requests_total", upstream="default", code="502") == 1
    assert value("evenkeel_requests_total", upstream="second", code="200") == 1
    assert value("evenkeel_request_duration_seconds_count", upstream="default") == 6
    assert value("evenkeel_attempts_per_request_count", upstream="default") == 6
    assert value("evenkeel_attempts_per_request_sum", upstream="default") == 1 + 2 + 2 + 1 + 1 + 3
    assert value("evenkeel_retries_total", upstream="default", reason="503") == 1
    assert value("evenkeel_retries_total", upstream="default", reason="502") == 1
    assert value("evenkeel_retries_total", upstream="default", reason="connect_failure") == 2
    assert value("evenkeel_attempts_total", upstream="default") == 10
    assert value("evenkeel_in_flight") == 0
    assert value("evenkeel_build_info", version="0.1.0") == 1


def test_histograms_are_cumulative(busy):
    m = busy.metrics()
    buckets = sorted((float(dict(labels)["le"]), v) for (name, labels), v in m.items()
                     if name == "evenkeel_request_duration_seconds_bucket" and ("upstream", "default") in labels)
    assert [v for _, v in buckets] == sorted(v for _, v in buckets)
    assert buckets[-1] == (float("inf"), 6)
    per = sorted(float(dict(labels)["le"]) for (name, labels) in m if name == "evenkeel_attempts_per_request_bucket"
                 and ("upstream", "default") in labels)
    assert per == [1, 2, 3, 4, 5, 8, float("inf")]


def test_process_metrics_are_of_this_process(busy):
    m = busy.metrics()
    assert abs(busy.metric("process_open_fds", m) - busy.fds()) <= 2
    assert 1e6 < busy.metric("process_resident_memory_bytes", m) and busy.metric("process_cpu_seconds_total", m) > 0


def test_health(proxy):
    p = proxy()
    for path in ("/livez", "/readyz"):
        r = p.ask(path)
        assert r.status == 200
        h = p.ask(path, "HEAD")
        assert h.status == 200 and h.body == b""


def test_methods_and_paths(proxy):
    p = proxy()
    assert p.ask("/nope").status == 404
    assert p.ask("/metrics", "DELETE").status == 405
    assert p.ask("/metrics", "POST").status == 405
    for path in ("/", "/upstreams", "/advice", "/config", "/explain", "/livez"):
        r = p.ask(path, "POST")
        assert r.status == 405 and r.header("Allow") == "GET, HEAD", path
    r = p.ask("/reload", "GET")
    assert r.status == 405 and r.header("Allow") == "POST"


def test_head_is_get_without_the_body(busy):
    for path in ("/", "/upstreams", "/advice", "/config", "/metrics", "/explain?url=http%3A%2F%2Fa.test%2F"):
        r, h = busy.ask(path), busy.ask(path, "HEAD")
        assert (r.status, h.status, h.body) == (200, 200, b""), path
        assert h.header("Content-Type") == r.header("Content-Type")
        assert abs(int(h.header("Content-Length")) - len(r.body)) < 100, path  # numbers move on


@pytest.mark.parametrize("accept, kind", [("text/plain, application/openmetrics-text;q=0", "text/plain"),
                                          ("application/openmetrics-text;q=0.5, */*;q=0.1", "application/openmetrics-text")])
def test_metrics_by_accept(proxy, accept, kind):
    assert proxy().ask("/metrics", headers=[("Accept", accept)]).header("Content-Type").startswith(kind)


def test_upstreams_json(busy):
    r = busy.ask("/upstreams")
    assert r.status == 200 and r.header("Content-Type").startswith("application/json")
    text = json.dumps(r.json())
    assert "second" in text and "default" in text and str(busy.origin.port) in text
    by = {(o["upstream"], o["host"]): o for o in r.json()["origins"] if o["port"] == busy.origin.port}
    assert set(by) == {("default", "127.0.0.1"), ("second", "localhost")}
    o = by["default", "127.0.0.1"]
    assert (o["scheme"], o["addresses"], o["waiting"], o["in_flight"], o["quiet_ms"]) == ("http", ["127.0.0.1"], 0, 0, 0)
    assert o["pool"] == {"active": 0, "idle": 1, "connecting": 0, "max_connections": 64, "max_idle": 16}
    assert o["breaker"] == {"is_on": False, "state": "closed", "failures_in_a_row": 0, "retry_after_ms": 0}
    assert o["budget"]["is_on"] and abs(o["budget"]["left"] - (10 + 5 * 0.2 - 2)) < 0.5
    n = {phase: q["n"] for phase, q in o["latency_ms"].items()}
    assert n == {"queue": 7, "connect": 1, "tls": 0, "first_byte": 7, "attempt": 7, "total": 5, "silence": 7, "stream": 0, "tunnel": 0}
    for q in o["latency_ms"].values():
        levels = [q["p50"], q["p90"], q["p99"], q["p99.9"], q["max"]]
        assert levels == [None] * 5 if q["n"] == 0 else levels == sorted(levels)
    assert [o["upstream"] for o in busy.ask("/upstreams?upstream=second").json()["origins"]] == ["second"]
    assert busy.ask("/upstreams?upstream=none").json()["origins"] == []
    assert busy.ask("/upstreams?upstream=%zz").status == 400


def test_upstreams_shows_what_is_under_way(proxy, origin):
    u = origin(hold())
    p = proxy(defaults={"pool": {"max_connections": 1, "max_in_flight": 1}})
    with p.client() as a, p.client() as b:
        a.request("GET", u.url())
        u.wait(n=1)
        b.request("GET", u.url())
        def state():
            (o,) = p.ask("/upstreams").json()["origins"]
            return o["pool"]["active"], o["waiting"], o["in_flight"]
        until(lambda: state() == (1, 1, 1), 1)
    until(lambda: state() == (0, 0, 0), 1)


def test_upstreams_shows_breaker_quiet_and_budget(proxy, origin):
    u = origin(reply(503, headers=[("Retry-After", "40")]))
    p = proxy(defaults={"breaker": {"consecutive": 2, "open_for": "1m"}, "retry": {"max_attempts": 2, "budget": {"reserve": 3}}})
    for _ in range(2):
        p.get(u.url())
    (o,) = p.ask("/upstreams").json()["origins"]
    assert o["breaker"]["is_on"] and o["breaker"]["state"] == "open"
    assert 50_000 < o["breaker"]["retry_after_ms"] <= 60_000
    assert 25_000 < o["quiet_ms"] <= 30_000  # retry_after.max
    assert 3 <= o["budget"]["left"] < 4


def advice(p, upstream="default"):
    r = p.ask(f"/advice?upstream={upstream}")
    assert r.status == 200 and r.header("Content-Type").startswith("application/json")
    (u,) = r.json()["upstreams"]
    return {t["timeout"]: t for t in u["timeouts"]}


def test_advice_json(busy):
    r = busy.ask("/advice").json()
    assert [u["upstream"] for u in r["upstreams"]] == ["second", "default"]
    t = advice(busy)
    assert list(t) == ["total", "attempt", "pool_wait", "connect", "tls_handshake", "response_headers", "body_idle", "stream_total",
                       "tunnel_idle", "tunnel_total"]
    assert (t["total"]["configured"], t["total"]["configured_ms"], t["response_headers"]["configured_ms"]) == ("30s", 30000, None)
    assert t["total"]["observed_ms"]["n"] == 6 and t["total"]["verdict"] == "few"
    assert t["tls_handshake"]["verdict"] == "unseen" and t["tunnel_idle"]["verdict"] == "unmeasured"
    assert busy.ask("/advice?upstream=none").json()["upstreams"] == []
    assert busy.ask("/advice?upstream=%").status == 400


def test_advice_makes_no_metrics(proxy):
    p = proxy(upstreams=[{"name": "unused", "match": {"hosts": ["unused.test"]}}])
    advice(p, "unused")
    assert "unused" not in p.ask("/metrics").text


def test_advice_on_a_timeout_that_cuts(proxy, origin):
    u = origin(*[reply(200)] * 110, hold())
    p = proxy(upstreams=[{"name": "cut", "match": {"hosts": ["127.0.0.1"]}, "timeouts": {"attempt": "150ms"}, "retry": {"max_attempts": 1},
                          "routes": [{"match": {"paths": ["/long"]}, "timeouts": {"attempt": "9s"}}]}])
    with p.client() as c:
        for _ in range(110):
            assert c.get(u.url()).status == 200
        for _ in range(2):
            assert c.get(u.url()).status == 504
    t = advice(p, "cut")["attempt"]
    assert (t["observed_ms"]["n"], t["reached"], t["cut"], t["verdict"]) == (112, {"n": 2, "share": 0.0179}, 2, "cuts")
    assert 150 <= t["observed_ms"]["max"] < 300 and t["observed_ms"]["p50"] < 100
    assert "2 of 112 attempts" in t["advice"] and t["enough_ms"] is None
    assert t["routes"] == [{"route": "routes[0]", "configured": "9s", "configured_ms": 9000, "reached": {"n": 0, "share": 0}}]
    assert advice(p, "cut")["total"]["verdict"] == "fits"


def test_advice_in_observe_mode_sees_past_the_limit(proxy, origin):
    u = origin(delay(0.3, reply(200)))
    p = proxy(defaults={"mode": "observe", "timeouts": {"response_headers": "100ms"}})
    assert p.get(u.url()).status == 200
    t = advice(p)["response_headers"]
    assert (t["cut"], t["would_have_cut"], t["reached"]["n"]) == (0, 1, 1)
    assert 290 <= t["observed_ms"]["max"] < 600


def test_latency_of_tls_streams_and_tunnels(proxy, origin, authority):
    def stream(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 8\r\n\r\n")
        time.sleep(0.2)
        x.send(b"data: x\n")
    u = origin(reply(200), stream, tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"originate": "on", "ca_file": authority.ca}}],
              egress={"connect_ports": [u.port]})
    with p.client() as c:
        assert c.get(u.url(host="localhost")).status == 200
        assert c.get(u.url(host="localhost")).body == b"data: x\n"
    with p.client() as c:
        c.send(f"CONNECT 127.0.0.1:{u.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("CONNECT").status == 200
        time.sleep(0.1)
    def latency(upstream):
        (o,) = p.ask(f"/upstreams?upstream={upstream}").json()["origins"]
        return o["latency_ms"]
    q = latency("t")
    assert {phase: q[phase]["n"] for phase in q} == {"queue": 2, "connect": 1, "tls": 1, "first_byte": 2, "attempt": 1, "total": 1,
                                                     "silence": 2, "stream": 1, "tunnel": 0}
    assert 0 < q["tls"]["max"] < 1000 and 200 <= q["stream"]["max"] < 1000 and 190 <= q["silence"]["max"] < 1000
    until(lambda: latency("default")["tunnel"]["n"] == 1, 1)
    q = latency("default")
    assert 100 <= q["tunnel"]["max"] < 1000 and q["connect"]["n"] == 1 and q["total"]["n"] == q["attempt"]["n"] == q["first_byte"]["n"] == 0


def test_what_the_client_cut_off_is_no_latency(proxy, origin):
    u = origin(hold())
    p = proxy()
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
    until(lambda: p.metric("evenkeel_cancelled_total") == 1, 1)
    (o,) = p.ask("/upstreams").json()["origins"]
    assert {phase for phase, q in o["latency_ms"].items() if q["n"]} == {"queue", "connect"}


def test_advice_outlives_the_origin(proxy, origin):
    u = origin(reply(200))
    p = proxy(upstreams=[{"name": "moved", "match": {"hosts": ["127.0.0.1"]}}])
    p.get(u.url())
    assert advice(p, "moved")["total"]["observed_ms"]["n"] == 1
    p.write({"upstreams": [{"name": "moved", "match": {"hosts": ["elsewhere.test"]}}]})
    assert p.ask("/reload", "POST").status == 200
    until(lambda: p.ask("/upstreams").json()["origins"] == [], 1)
    assert advice(p, "moved")["total"]["observed_ms"]["n"] == 1


def test_config_shows_effective_values_and_hides_secrets(proxy):
    p = proxy(defaults={"headers": {"request": {"set": {"Authorization": "Bearer s3cret"}}}},
              upstreams=[{"name": "pay", "match": {"hosts": ["pay.test"]}, "timeouts": {"total": "7s"}}])
    r = p.ask("/config")
    assert r.status == 200 and "s3cret" not in r.text and "7s" in r.text and "pay" in r.text
    assert isinstance(yaml.safe_load(r.text), (dict, list))


def test_explain(proxy):
    p = proxy(upstreams=[{"name": "pay", "match": {"hosts": ["pay.test"]}, "timeouts": {"total": "7s"},
                          "routes": [{"match": {"methods": ["POST"], "paths": ["/c"]}, "retry": {"max_attempts": 1}}]}])
    r = p.explain("http://pay.test/c", "POST")
    assert r.status == 200 and "upstream: pay" in r.text and "route: " in r.text and "built-in" in r.text and "policy.yaml:" in r.text
    assert p.explain("not a url").status == 400
    assert p.ask("/explain").status == 400
    assert p.ask("/explain?url=http%3A%2F%2Fpay.test%2").status == 400
    assert p.ask("/explain?url=http%3A%2F%2Fa&url=http%3A%2F%2Fb").status == 400
    assert p.explain("http://pay.test/", "G T").status == 400
    assert p.ask("/explain?url=http%3A%2F%2Fpay.test&format=xml").status == 400
    assert "upstream: pay" in p.ask("/explain?url=http://pay.test/c").text
    for r in (p.ask("/explain?url=http://pay.test/c&format=json"),
              p.ask("/explain?url=http://pay.test/c", headers=[("Accept", "application/json")])):
        assert r.header("Content-Type") == "application/json" and isinstance(r.json(), dict)


def test_explain_says_what_the_command_says(proxy):
    p = proxy(upstreams=[{"name": "pay", "match": {"hosts": ["pay.test"]}}])
    done = run_evenkeel("explain", "-c", p.file, "POST", "http://pay.test/c?x=1")
    assert done.returncode == 0 and p.explain("http://pay.test/c?x=1", "POST").text == done.stdout


def test_dashboard_is_self_contained(proxy):
    p = proxy()
    r = p.ask("/")
    assert r.status == 200 and r.header("Content-Type").startswith("text/html")
    assert "<html" in r.text.lower() and 'src="http' not in r.text and 'href="http' not in r.text
    rules = dict(rule.split(" ", 1) for rule in r.header("Content-Security-Policy").split("; "))
    assert rules["default-src"] == "'none'" and rules["frame-ancestors"] == "'none'" and rules["connect-src"] == "'self'"
    nonce = rules["script-src"].removeprefix("'nonce-").removesuffix("'")
    assert rules["style-src"] == rules["script-src"] and len(nonce) == 32
    assert r.text.count(f'nonce="{nonce}"') == 2 and "@NONCE@" not in r.text
    assert nonce not in p.ask("/").text


def test_reload_by_admin(proxy):
    p = proxy()
    r = p.ask("/reload", "POST")
    assert r.status == 200 and isinstance(r.json(), dict)
    p.write(text="bogus: 1\n")
    r = p.ask("/reload", "POST")
    assert r.status == 422 and "bogus" in r.text and isinstance(r.json(), dict)


@pytest.mark.parametrize("path", ["/reload", "/drain"])
def test_cross_origin_posts_are_refused(proxy, path):
    p = proxy()
    r = p.ask(path, "POST", [("Origin", "http://evil.example")])
    assert r.status == 403
    assert p.ask("/readyz").status == 200


def host(p, path, name):
    with Client(p.admin) as c:
        return c.fetch("GET", path, [("Host", name)]).status


def test_rebinding_is_refused(proxy):
    p = proxy(admin_hosts=["sidecar.internal"])
    for path in ("/config", "/upstreams", "/", "/advice"):
        assert host(p, path, "evil.example") == 403, path
        assert host(p, path, f"evil.example:{p.admin[1]}") == 403
        for good in ("localhost", f"127.0.0.1:{p.admin[1]}", "sidecar.internal", "[::1]:9128"):
            assert host(p, path, good) == 200, (path, good)
    for path in ("/livez", "/readyz", "/metrics"):
        assert host(p, path, "evil.example") == 200, path


def test_admin_off(proxy, origin):
    u = origin(reply(200))
    p = proxy(admin="off")
    assert p.logs("listening", role="admin") == []
    assert p.get(u.url()).status == 200


def test_gauges_follow(proxy, origin):
    u = origin(hold())
    p = proxy()
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        m = p.metrics()
        assert p.metric("evenkeel_in_flight", m, upstream="default") == 1
        assert p.metric("evenkeel_pool_connections", m, upstream="default", state="active") == 1
        assert p.metric("evenkeel_client_connections", m) >= 1
    until(lambda: p.metric("evenkeel_in_flight") == 0, 1)
    until(lambda: p.metric("evenkeel_client_connections") <= 1, 1)


def test_credentials_are_never_logged(proxy, origin):
    u = origin(reply(503), reply(200))
    p = proxy(log={"level": "debug"})
    p.get(u.url("/x?token=q1"), [("Authorization", "Bearer s3cret-a"), ("Proxy-Authorization", "Basic s3cret-b"),
                                 ("Cookie", "sid=s3cret-c")])
    p.access()
    assert "s3cret" not in json.dumps(p.lines)


def test_text_log(tmp_path, origin):
    from harness import Proxy
    u = origin(reply(200))
    text = "listen: 127.0.0.1:0\nadmin: off\nlog: {format: text}\n"
    p = Proxy(tmp_path, text=text, start=False)
    p.wait_ready = lambda: until(lambda: any("listening" in line and "proxy" in line for line in p.noise), 5)
    p.start()
    import re
    port = int(re.search(r"127\.0\.0\.1:(\d+)", next(line for line in p.noise if "listening" in line))[1])
    with Client(("127.0.0.1", port)) as c:
        assert c.get(u.url()).status == 200
    until(lambda: any("request" in line and "200" in line for line in p.noise), 2)
    p.noise.clear()
    p.term()
    assert p.wait_exit() == 0


def test_access_log_off(proxy, origin):
    u = origin(reply(200))
    p = proxy(log={"access": "off"})
    p.get(u.url())
    p.get(u.url())
    assert p.logs("request") == []
