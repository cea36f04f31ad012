"""Start, reload, drain, stop: signals and exit codes."""
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from harness import BIN, Client, Incomplete, SLOWNESS, delay, hold, problem, reply, run_evenkeel, took, until


# --- start

def test_builtin_defaults_are_said_so(proxy, origin):
    u = origin(reply(503), reply(200))
    p = proxy(builtin=True)
    first = p.lines[0]
    assert first["event"] == "start" and "built-in" in str(first)
    assert p.get(u.url()).status == 200
    assert p.ask("/readyz").status == 200


def test_the_start_is_told_before_what_it_runs_short_of():
    command = f"ulimit -n 500; exec '{BIN}' --listen 127.0.0.1:0 --admin off"
    process = subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE)
    lines = [json.loads(process.stderr.readline()) for _ in range(3)]
    process.terminate()
    process.communicate(timeout=5)
    assert [line["event"] for line in lines] == ["start", "limits", "listening"]
    assert lines[0]["config"] == "built-in defaults" and " 500 descriptors" in lines[1]["message"]
    assert process.returncode == 0


def test_every_listener_is_logged(proxy):
    p = proxy(listen=["127.0.0.1:0", "[::1]:0"], upstreams=[{"name": "a", "match": {"hosts": ["a.test"]}, "listen": "127.0.0.1:0"}])
    roles = [(line["role"], line["address"]) for line in p.logs("listening")]
    assert [r for r, _ in roles].count("proxy") == 2
    assert any(a.startswith("[::1]:") for _, a in roles)
    assert [line["upstream"] for line in p.logs("listening", role="upstream")] == ["a"]
    assert all(not a.endswith(":0") for _, a in roles)


def test_bad_policy_does_not_start(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("listen: 127.0.0.1:0\nadmin: off\ndefaults:\n  timeouts: {totl: 5s}\n")
    done = run_evenkeel("run", "-c", file)
    assert done.returncode == 1 and done.stdout == ""
    assert "p.yaml:4:14:" in done.stderr and "total" in done.stderr


def test_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_evenkeel("--listen", f"127.0.0.1:{port}", "--admin", "off")
    assert done.returncode == 1 and str(port) in done.stderr and "in use" in done.stderr.lower()


def test_missing_file(tmp_path):
    done = run_evenkeel("run", "-c", tmp_path / "none.yaml")
    assert done.returncode == 1 and "none.yaml" in done.stderr


def test_stdin_out_and_err_may_be_closed(tmp_path):
    process = subprocess.Popen(["sh", "-c", f"exec '{BIN}' --listen 127.0.0.1:0 --admin off <&- >&- 2>&-"])
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    assert process.wait(5) == 0


def test_starts_quickly(proxy):
    with took(0, 0.3):
        proxy()


# --- reload

def test_reload_takes_new_policies(proxy, origin):
    u = origin(lambda x: x.reply(503, b"%d" % x.n))
    p = proxy(defaults={"retry": {"max_attempts": 2}})
    assert p.get(u.url()).attempts == 2
    p.write({"defaults": {"retry": {"max_attempts": 4}}})
    line = p.hup()
    assert line["result"] == "ok"
    assert p.get(u.url()).attempts == 4
    assert p.metric("evenkeel_config_reloads_total", result="success") == 1
    assert time.time() - p.metric("evenkeel_config_last_success_timestamp_seconds") < 30


def test_reload_with_faults_changes_nothing(proxy, origin):
    u = origin(lambda x: x.reply(503, b"%d" % x.n))
    p = proxy(defaults={"retry": {"max_attempts": 2}})
    p.write(text="defaults:\n  retry: {max_attempts: 4}\n  tiemouts: {}\n")
    line = p.hup()
    assert (line["result"], line["level"]) == ("failed", "error")
    until(lambda: any("timeouts" in str(each) and "tiemouts" in str(each) for each in p.logs("reload")), 1, "the fault in the log")
    assert p.get(u.url()).attempts == 2
    assert p.ask("/readyz").status == 200


# case K7
def test_running_request_keeps_its_policy(proxy, origin):
    u = origin(delay(0.6, reply(200, b"old policy")))
    p = proxy(defaults={"timeouts": {"total": "5s"}})
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.write({"defaults": {"timeouts": {"total": "200ms"}}})
        p.hup()
        with took(0.2, 0.25):
            problem(p.get(u.url()), 504, "http_response_timeout")
        assert c.response().body == b"old policy"


def test_reload_keeps_connections(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as c:
        c.get(u.url())
        p.hup()
        c.get(u.url())
    assert u.k == 1


def test_reload_storm(proxy, origin):
    u = origin(lambda x: x.reply(200))
    p = proxy()
    with p.no_leak():
        with p.client() as c:
            for i in range(50):
                p.write({"defaults": {"retry": {"max_attempts": 1 + i % 5}}})
                p.signal(signal.SIGHUP)
                assert c.get(u.url()).status == 200
        p.write({"unmatched": "deny"})
        p.signal(signal.SIGHUP)
        until(lambda: p.get(u.url()).status == 403, 2, "the last file content")


def test_reload_rebinds_listeners(proxy, origin):
    u = origin(reply(200, b"x"))
    p = proxy()
    old = p.address
    n = len(p.logs("listening"))
    p.write({"listen": ["127.0.0.1:0", "127.0.0.2:0"]})
    p.hup()
    until(lambda: len(p.logs("listening")) > n, 2)
    until(lambda: any(line["address"].startswith("127.0.0.2:") for line in p.logs("listening")), 2)
    host, port = p.logs("listening")[-1]["address"].rsplit(":", 1)
    with Client((host, int(port))) as c:
        assert c.get(u.url()).body == b"x"
    assert old


def test_removed_upstream(proxy, origin):
    u = origin(delay(0.3, reply(200, b"x")))
    p = proxy(upstreams=[{"name": "a", "match": {"hosts": ["127.0.0.1"]}}])
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.write({})
        p.hup()
        r = c.response()
        assert r.status == 200 and r.header("Evenkeel-Upstream") == "a"
    assert p.get(u.url()).header("Evenkeel-Upstream") == "default"


def test_watch_reloads_by_itself(proxy, origin):
    u = origin(reply(200))
    p = proxy(watch="on")
    assert p.get(u.url()).status == 200
    p.write({"watch": "on", "unmatched": "deny"})
    p.wait_log("reload", timeout=5)
    until(lambda: p.get(u.url()).status == 403, 3)


def test_watch_follows_the_symlink_swap_of_config_maps(proxy, tmp_path, origin):
    u = origin(reply(200))

    def version(name, unmatched):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "policy.yaml").write_text(
            f"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nwatch: on\nunmatched: {unmatched}\n")
        os.symlink(name, tmp_path / "..data_tmp")
        os.rename(tmp_path / "..data_tmp", tmp_path / "..data")
    version("..v1", "allow")
    os.symlink("..data/policy.yaml", tmp_path / "policy.yaml")
    p = proxy(builtin=True, arguments=["-c", str(tmp_path / "policy.yaml")])
    assert p.get(u.url()).status == 200
    version("..v2", "deny")
    until(lambda: p.get(u.url()).status == 403, 5)


# --- drain

# case K1
def test_work_in_flight_is_finished(proxy, origin):
    u = origin(delay(0.5, reply(200, b"done")))
    p = proxy(drain={"delay": "0s", "timeout": "5s"})
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        start = time.monotonic()
        p.term()
        r = c.response()
        assert r.status == 200 and r.body == b"done" and r.header("Connection").lower() == "close"
        assert c.closed()
        assert p.wait_exit() == 0
        assert 0.3 < time.monotonic() - start < 1.0 * SLOWNESS
    assert p.logs("drain") and [(line["cut"], line["exit_code"]) for line in p.logs("stop")] == [(0, 0)]


def test_retries_in_flight_may_go_on(proxy, origin):
    u = origin(reply(503), reply(200, b"second"))
    p = proxy(defaults={"retry": {"backoff": {"base": "300ms", "max": "300ms"}}})
    with p.client() as c:
        c.request("GET", u.url())
        p.wait_log("retry")
        p.term()
        assert c.response().body == b"second"
    assert p.wait_exit() == 0


def test_idle_stop_is_quick(proxy):
    p = proxy()
    with took(0, 0.3):
        p.term()
        assert p.wait_exit() == 0


# case K3
def test_idle_client_connections_are_closed(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    with p.client() as used, p.client() as fresh:
        used.get(u.url())
        p.term()
        assert used.closed(1) and fresh.closed(1)
        assert p.wait_exit() == 0


def test_new_connections_are_refused_while_draining(proxy, origin):
    u = origin(delay(0.5, reply(200)))
    p = proxy()
    address = p.address
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.term()
        p.wait_log("drain")
        until(lambda: refused(address), 0.3, "the listener to close")
        assert c.response().status == 200
    assert p.wait_exit() == 0


def refused(address):
    try:
        with Client(address) as c:
            c.socket.settimeout(0.05)
            try:
                return c.socket.recv(1) == b""
            except TimeoutError:
                return False
    except ConnectionError:
        return True


def test_drain_may_be_posted_again(proxy, origin):
    u = origin(delay(0.6, reply(200, b"done")))
    p = proxy(drain={"delay": "300ms", "timeout": "5s"})
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        assert [p.ask("/drain", "POST").status for _ in range(3)] == [202, 202, 202]
        assert c.response().body == b"done"
    assert p.wait_exit() == 0
    assert [line["stage"] for line in p.logs("drain")] == ["delay", "closing"]


def test_drain_timeout_cuts_the_rest_off(proxy, origin):
    u = origin(hold())
    p = proxy(drain={"timeout": "300ms"})
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        with took(0.3, 0.4):
            p.term()
            try:
                r = c.response()
                assert r.status == 503
            except Incomplete:
                pass
            assert p.wait_exit() == 3
    assert [(line["cut"], line["exit_code"]) for line in p.logs("stop")] == [(1, 3)]


def test_what_the_drain_cuts_off_is_logged_as_it_was_answered(proxy, origin):
    u = origin(hold())
    p = proxy(drain={"timeout": "200ms"})
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.term()
        assert c.response().status == 503
        assert p.wait_exit() == 3
    access = p.access()
    assert (access["status"], access["verdict"]) == (503, "draining")
    assert access["error"] == "proxy_internal_response" and not p.logs("cancelled")


def test_second_signal_stops_at_once(proxy, origin):
    u = origin(hold())
    p = proxy(drain={"timeout": "20s"})
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.term()
        p.wait_log("drain")
        with took(0, 0.2):
            p.signal(signal.SIGINT)
            assert p.wait_exit() == 3


def test_drain_delay_still_takes_work(proxy, origin):
    u = origin(reply(200, b"late work"))
    p = proxy(drain={"delay": "600ms", "timeout": "5s"})
    start = time.monotonic()
    p.term()
    until(lambda: p.ask("/readyz").status == 503, 0.4, "/readyz to turn")
    assert p.ask("/livez").status == 200
    assert p.get(u.url()).body == b"late work"
    assert p.metric("evenkeel_draining") == 1
    assert p.wait_exit() == 0
    assert 0.55 < time.monotonic() - start < 1.2 * SLOWNESS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_stop(proxy, number):
    p = proxy()
    p.signal(number)
    assert p.wait_exit() == 0


# case K5
def test_tunnels_may_stay_until_the_drain_ends(proxy, origin):
    def echo(conn):
        while conn.fill():
            conn.send(conn.buffer)
            conn.buffer = b""
    u = origin(on_connection=echo)
    p = proxy(egress={"connect_ports": "any"}, drain={"timeout": "600ms"})
    with p.client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        start = time.monotonic()
        p.term()
        time.sleep(0.2)
        c.send(b"\x16x")
        assert c.exactly(2, r) == b"\x16x"
        assert c.closed(2)
        assert p.wait_exit() == 3
        assert 0.55 < time.monotonic() - start < 1.2 * SLOWNESS


def test_hup_then_term(proxy):
    p = proxy()
    p.signal(signal.SIGHUP)
    p.term()
    assert p.wait_exit() == 0


def test_usr1_dumps_upstreams(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    p.get(u.url())
    p.access()
    p.signal(signal.SIGUSR1)
    line = p.wait_log("origin")
    assert (line["event"], line["host"], line["port"], line["addresses"]) == ("origin", "127.0.0.1", u.port, "127.0.0.1")
    assert (line["idle"], line["active"], line["in_flight"], line["pending"], line["budget_left"]) == (1, 0, 0, 0, 10)
    assert 0 < line["first_byte_p50_ms"] <= line["total_p99_ms"] and "tls_p50_ms" not in line and "breaker" not in line


def test_drain_by_admin(proxy):
    p = proxy()
    assert p.ask("/drain", "POST").status == 202
    assert p.wait_exit() == 0


def test_a_stuck_log_reader_stops_nothing(tmp_path, origin):
    u = origin(reply(200))
    policy = tmp_path / "p.yaml"
    reader, writer = os.pipe()
    policy.write_text("listen: 127.0.0.1:0\nadmin: off\n")
    process = subprocess.Popen([BIN, "run", "-c", str(policy)], stderr=writer, stdin=subprocess.DEVNULL)
    os.close(writer)
    try:
        data = b""
        end = time.monotonic() + 5
        while b'"role":"proxy"' not in data and time.monotonic() < end:
            data += os.read(reader, 65536)
        import json
        address = [json.loads(line) for line in data.decode().splitlines() if '"role":"proxy"' in line][0]["address"]
        host, _, port = address.rpartition(":")
        # Nobody reads from here on; a pipe holds 64 KiB.
        with Client((host, int(port))) as c:
            for _ in range(1500):
                assert c.get(u.url("/" + "a" * 200)).status == 200
        assert process.poll() is None
        process.terminate()
        start = time.monotonic()
        while process.poll() is None and time.monotonic() - start < 8:
            data += os.read(reader, 65536)
        data += os.read(reader, 1 << 20)
        assert process.wait(1) == 0
        assert b"log_dropped" in data
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(reader)
