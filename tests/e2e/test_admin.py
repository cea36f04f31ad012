"""The admin port: health, metrics, JSON, and who may ask."""
import json
import shutil
import subprocess

import pytest
import yaml

from harness import Client, free_port, hold, reply, until


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
    assert r.status == 200
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
    r = p.ask("/reload", "GET")
    assert r.status == 405 and "POST" in (r.header("Allow") or "POST")


def test_upstreams_json(busy):
    r = busy.ask("/upstreams")
    assert r.status == 200 and r.header("Content-Type").startswith("application/json")
    text = json.dumps(r.json())
    assert "second" in text and "default" in text and str(busy.origin.port) in text


def test_advice_json(busy):
    r = busy.ask("/advice")
    assert r.status == 200 and r.header("Content-Type").startswith("application/json") and r.json()


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


def test_dashboard_is_self_contained(proxy):
    r = proxy().ask("/")
    assert r.status == 200 and r.header("Content-Type").startswith("text/html")
    assert "<html" in r.text.lower() and 'src="http' not in r.text and 'href="http' not in r.text


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
