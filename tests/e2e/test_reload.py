"""New policies into a running process: what is reported, what stays undisturbed, and when it happens by itself."""
import os
import shutil
import signal
import socket
import threading
import time

import pytest
import yaml

from harness import Client, Incomplete, SLOWNESS, delay, free_port, hold, patience, problem, reply, took, until

A = {"name": "a", "match": {"hosts": ["a.test"]}, "timeouts": {"total": "8s"}}
B = {"name": "b", "match": {"hosts": ["b.test"]}}


def results(p):
    return [line for line in p.logs("reload") if line["result"] in ("ok", "failed")]


def changes(p):
    """The log lines of single changes: (change, scope, key, before, after)."""
    return [tuple(line.get(key) for key in ("change", "scope", "key", "before", "after"))
            for line in p.logs("reload", result="change")]


# --- what is reported

def test_log_says_what_changed(proxy):
    p = proxy(upstreams=[A, B])
    p.write({"unmatched": "deny", "defaults": {"retry": {"max_attempts": 5}},
             "upstreams": [{**A, "timeouts": {"total": "5s"}, "match": {"hosts": ["a.test", "aa.test"]}},
                           {"name": "c", "match": {"hosts": ["c.test"]}}]})
    line = p.hup()
    assert changes(p) == [
        ("changed", None, "unmatched", "allow", "deny"),
        ("changed", "defaults", "retry.max_attempts", "3", "5"),
        ("removed", "upstreams[b]", None, None, None),
        ("changed", "upstreams[a]", "match.hosts", "[a.test]", "[a.test, aa.test]"),
        ("changed", "upstreams[a]", "timeouts.total", "8s", "5s"),
        ("added", "upstreams[c]", None, None, None),
    ]
    assert (line["result"], line["level"], line["changes"], line["config"]) == ("ok", "info", 6, p.file)
    assert (line["upstreams_added"], line["upstreams_removed"], line["upstreams_changed"]) == ("c", "b", "a")
    assert line["message"] == "6 changes; upstreams: 1 added, 1 removed, 1 changed"


def test_log_says_that_nothing_changed(proxy):
    p = proxy(upstreams=[A])
    with open(p.file, "a", encoding="utf-8") as stream:
        stream.write("# only a comment\n")
    line = p.hup()
    assert (line["result"], line["changes"], line["message"]) == ("ok", 0, "nothing has changed")
    assert changes(p) == [] and "upstreams_changed" not in line


def test_post_says_what_changed(proxy):
    p = proxy(upstreams=[A, B])
    route = {"match": {"paths": ["/slow"]}, "timeouts": {"total": "off"}}
    p.write({"upstreams": [{**A, "timeouts": {"total": "5s"}, "routes": [route]}, {"name": "c", "match": {"hosts": ["c.test"]}}]})
    r = p.ask("/reload", "POST")
    assert r.status == 200 and r.header("Content-Type") == "application/json"
    assert r.json() == {
        "result": "ok",
        "message": "4 changes; upstreams: 1 added, 1 removed, 1 changed",
        "upstreams": {"added": ["c"], "removed": ["b"], "changed": ["a"]},
        "changes": [
            {"change": "removed", "scope": "upstreams[b]", "key": None, "before": None, "after": None},
            {"change": "changed", "scope": "upstreams[a]", "key": "timeouts.total", "before": "8s", "after": "5s"},
            {"change": "added", "scope": "upstreams[a].routes[0]", "key": None, "before": None, "after": None},
            {"change": "added", "scope": "upstreams[c]", "key": None, "before": None, "after": None},
        ]}
    r = p.ask("/reload", "POST")
    assert r.json() == {"result": "ok", "message": "nothing has changed", "changes": [],
                        "upstreams": {"added": [], "removed": [], "changed": []}}


def test_credentials_are_not_reported(proxy):
    def with_token(token):
        return {"defaults": {"headers": {"request": {"set": {"Authorization": token}}}}}
    p = proxy(**with_token("Bearer first-secret"))
    p.write(with_token("Bearer second-secret"))
    r = p.ask("/reload", "POST")
    assert [each["key"] for each in r.json()["changes"]] == ["headers.request.set"]
    assert "secret" not in r.text and "secret" not in str(p.lines)


def test_many_changes_are_bounded(proxy):
    def many(total):
        return {"upstreams": [{"name": f"u{i}", "match": {"hosts": [f"h{i}.test"]}, "timeouts": {"total": total}} for i in range(1100)]}
    p = proxy(**many("50s"))
    p.write(many("60s"))
    r = p.ask("/reload", "POST").json()
    assert len(r["changes"]) == 1000 and r["left_out"] == 100
    assert r["upstreams"]["changed"] == [f"u{i}" for i in range(1000)]
    line = p.wait_log("reload", result="ok")
    assert line["changes"] == 1100 and len(changes(p)) == 50
    assert line["upstreams_changed"].startswith("u0 u1 u2 ") and line["upstreams_changed"].endswith("...")
    assert "100 changes that are not looked into" in line["message"]


def test_post_with_faults_says_which(proxy, origin):
    u = origin(lambda x: x.reply(503))
    p = proxy(defaults={"retry": {"max_attempts": 2}})
    p.write(text="unmatched: denny\ndefaults:\n  tiemouts: {total: 5s}\n")
    r = p.ask("/reload", "POST")
    assert r.status == 422 and r.header("Content-Type") == "application/json"
    said = r.json()
    assert said["result"] == "failed" and "old policies" in said["message"]
    assert [(each["severity"], each["file"], each["line"], each["column"]) for each in said["faults"]] == \
        [("error", p.file, 1, 12), ("error", p.file, 3, 3)]
    assert "deny" in said["faults"][0]["message"] and "timeouts" in said["faults"][1]["message"]
    assert p.get(u.url()).attempts == 2
    assert p.metric("evenkeel_config_reloads_total", result="failure") == 1
    assert len(p.logs("reload", result="fault")) == 2 and len(results(p)) == 1


def test_many_warnings_and_faults_are_bounded(proxy):
    def many(total, key="timeouts"):
        return {"upstreams": [{"name": f"u{i}", "match": {"hosts": [f"h{i}.test"]}, key: {"total": total}} for i in range(500)]}
    p = proxy(**many("5s"))  # shorter than `attempt`
    warnings = p.logs("policy_warning")
    assert len(warnings) == 51 and warnings[-1]["message"] == "and 450 more (evenkeel check shows them all)"
    p.write(many("5s", "tiemouts"))
    assert p.ask("/reload", "POST").status == 422
    until(lambda: len(results(p)) == 1)
    faults = p.logs("reload", result="fault")
    assert len(faults) == 51 and faults[-1]["message"] == "and 450 more (evenkeel check shows them all)"
    assert results(p)[0]["message"].startswith("500 faults in ")


def test_file_that_is_gone_changes_nothing(proxy, origin):
    u = origin(lambda x: x.reply(503))
    p = proxy(defaults={"retry": {"max_attempts": 2}})
    os.remove(p.file)
    line = p.hup()
    assert line["result"] == "failed"
    assert p.get(u.url()).attempts == 2
    r = p.ask("/reload", "POST")
    assert r.status == 422 and "No such file" in r.text


def test_without_a_file_there_is_nothing_to_reload(proxy):
    p = proxy(builtin=True)
    r = p.ask("/reload", "POST")
    assert r.status == 422 and "-c" in r.json()["message"]
    assert p.hup()["result"] == "failed" and p.ask("/readyz").status == 200


def test_command_line_stays_in_force(proxy, origin):
    u = origin(reply(200))
    p = proxy(arguments=["--log-level", "debug", "--listen", "127.0.0.1:0"])
    address = p.address
    p.write({"listen": "127.0.0.1:1", "log": {"level": "error"}})
    assert p.ask("/reload", "POST").status == 200
    assert p.address == address and p.get(u.url()).status == 200 and p.access()["status"] == 200


def test_certificates_that_can_not_be_read_change_nothing(proxy, authority, tmp_path):
    p = proxy()
    file = tmp_path / "ca.pem"
    file.write_text("this is no certificate\n")
    for path in (file, tmp_path / "none.pem"):
        p.write({"unmatched": "deny", "upstreams": [{**A, "tls": {"originate": "on", "ca_file": str(path)}}]})
        r = p.ask("/reload", "POST")
        errors = [each for each in r.json()["faults"] if each["severity"] == "error"]
        assert r.status == 422 and len(errors) == 1 and errors[0]["message"].startswith(f"upstream a: tls.ca_file: {path}: ")
        with open(p.file, encoding="utf-8") as stream:
            assert "ca_file:" in stream.read().split("\n")[errors[0]["line"] - 1]
        assert "unmatched: allow" in p.ask("/config").text
    shutil.copy(authority.ca, file)
    p.write({"upstreams": [{**A, "tls": {"originate": "on", "ca_file": str(file)}}]})
    assert p.ask("/reload", "POST").json()["upstreams"]["added"] == ["a"]


def test_new_content_of_a_certificate_is_a_change(proxy, origin, authority, tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text(open(authority.self_signed("stranger")[0], encoding="ascii").read())
    u = origin(reply(200, b"known"), tls=authority.server())
    tls = {"originate": "on", "ca_file": str(ca)}
    p = proxy(upstreams=[{"name": "x", "match": {"hosts": ["x.test"]}},
                         {"name": "t", "match": {"hosts": ["localhost"]}, "tls": tls}])
    problem(p.get(u.url(host="localhost")), 502, "tls_certificate_error")
    shutil.copy(authority.ca, ca)
    said = p.ask("/reload", "POST").json()
    assert said["changes"] == [{"change": "changed", "scope": "upstreams[t]", "key": "tls", "before": None,
                                "after": "new content of the files it names"}]
    assert said["upstreams"]["changed"] == ["t"]
    assert p.get(u.url(host="localhost")).body == b"known"
    assert p.ask("/reload", "POST").json()["changes"] == []


# --- what stays undisturbed

def test_two_hundred_reloads_under_load(proxy, origin):
    steady, moving = origin(lambda x: x.reply(200, x.request.target.encode())), origin(lambda x: x.reply(200, x.request.target.encode()))

    def policy(i):
        return {"upstreams": [
            {"name": "steady", "match": {"hosts": ["127.0.0.1"], "ports": [steady.port]}},
            {"name": "moving", "match": {"hosts": ["127.0.0.1"], "ports": [moving.port]}, "timeouts": {"total": f"{10 + i % 7}s"},
             "pool": {"max_idle": 4 + i % 3}},
            *([{"name": f"passing{i}", "match": {"hosts": [f"p{i}.test"]}}] if i % 2 else [])]}
    p = proxy(log={"access": "off"}, **policy(0))
    faults, n_done = [], [0] * 4
    is_over = threading.Event()

    def work(number):
        try:
            with p.client() as c:
                while not is_over.is_set():
                    for u in (steady, moving):
                        target = f"/{number}/{n_done[number]}"
                        r = c.get(u.url(target))
                        assert (r.status, r.body, r.attempts) == (200, target.encode(), 1), r
                    n_done[number] += 1
        except Exception as fault:  # noqa: BLE001 - shown below
            faults.append(fault)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    try:
        for i in range(20):
            p.write({"log": {"access": "off"}, **policy(i)})
            assert p.ask("/reload", "POST").status == 200
        fds, rss = p.fds(), p.rss()
        for i in range(20, 200):
            p.write({"log": {"access": "off"}, **policy(i)})
            assert p.ask("/reload", "POST").status == 200 and not faults, faults
        rss_after = p.rss()
    finally:
        is_over.set()
        for worker in workers:
            worker.join()
    assert not faults and min(n_done) > 20
    assert p.metric("evenkeel_config_reloads_total", result="success") == 200
    assert p.metric("evenkeel_config_reloads_total", result="failure") == 0
    # The four clients' connections, those they lead to, and one of the admin port.
    assert p.fds() <= fds + 1
    assert SLOWNESS > 1 or rss_after < rss + 2 * 1024 * 1024
    assert steady.k <= 4 and p.metric("evenkeel_connections_opened_total", upstream="steady") == steady.k
    assert moving.k <= 4


def test_unchanged_upstream_keeps_connections_breaker_and_waiters(proxy, origin):
    u = origin(lambda x: x.reply(200) if x.request.target == "/quick" else (x.sleep(0.4), x.reply(200, b"slow")))
    one = {"name": "one", "match": {"hosts": ["127.0.0.1"]}, "pool": {"max_in_flight": 1, "max_connections": 1}}
    p = proxy(upstreams=[one, A])
    assert p.get(u.url("/quick")).status == 200
    with p.client() as first, p.client() as second:
        first.request("GET", u.url("/slow"))
        u.wait(n=2)
        second.request("GET", u.url("/slow"))
        until(lambda: p.metric("evenkeel_pool_pending", upstream="one") == 1)
        p.write({"upstreams": [one, B], "unmatched": "deny"})
        assert p.hup()["result"] == "ok"
        assert p.metric("evenkeel_pool_pending", upstream="one") == 1 and p.metric("evenkeel_in_flight", upstream="one") == 1
        assert first.response().body == b"slow" and second.response().body == b"slow"
    assert u.k == 1 and p.metric("evenkeel_connections_opened_total", upstream="one") == 1


def test_open_breaker_stays_open(proxy, origin):
    u = origin(lambda x: x.reply(500))
    breaker = {"breaker": {"consecutive": 2, "min_requests": 100, "open_for": "30s"}, "retry": {"max_attempts": 1}}
    p = proxy(defaults=breaker)
    assert [p.get(u.url()).status for _ in range(3)] == [500, 500, 503]
    p.write({"defaults": breaker, "upstreams": [A]})
    p.hup()
    problem(p.get(u.url()), 503, "destination_unavailable")
    assert u.n == 2


def test_new_limits_apply_at_once(proxy, origin):
    u = origin(delay(0.5, reply(200)))
    p = proxy(defaults={"pool": {"max_in_flight": 1, "max_connections": 1}})
    with p.client() as first, p.client() as second:
        first.request("GET", u.url())
        u.wait(n=1)
        second.request("GET", u.url())
        until(lambda: p.metric("evenkeel_pool_pending") == 1)
        p.write({"defaults": {"pool": {"max_in_flight": 2, "max_connections": 2}}})
        with took(0, 0.4):
            p.hup()
            u.wait(n=2)
        assert first.response().status == second.response().status == 200


def test_request_of_a_removed_listener_is_finished(proxy, origin):
    u = origin(delay(0.5, reply(200, b"done")))
    p = proxy()
    old = p.address
    with p.client() as c, p.client() as idle:
        idle.get(u.url())
        c.request("GET", u.url())
        u.wait(n=2)
        p.write({"listen": "127.0.0.1:0", "upstreams": [A], "drain": {"delay": "0s"}})
        p.write(text=open(p.file, encoding="utf-8").read().replace("127.0.0.1:0", "127.0.0.2:0", 1))
        assert p.hup()["result"] == "ok"
        assert p.address[0] == "127.0.0.2"
        until(lambda: is_refused(old), 1, "the old listener to close")
        assert idle.closed()
        r = c.response()
        assert r.body == b"done" and r.header("Connection") == "close"
    assert p.get(u.url()).body == b"done"


def is_refused(address):
    try:
        Client(address).close()
        return False
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it had been in the queue of a socket that was closed
        return False


def test_new_listeners_open_before_old_ones_close(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    first, second = free_port(), free_port("127.0.0.2")
    p.write({"listen": f"127.0.0.1:{first}"})
    p.hup()
    is_over = threading.Event()
    misses = []

    def knock():
        while not is_over.is_set():
            if is_refused(("127.0.0.1", first)) and is_refused(("127.0.0.2", second)) and is_refused(("127.0.0.1", first)):
                misses.append(time.monotonic())
    knocker = threading.Thread(target=knock)
    knocker.start()
    try:
        for i in range(20):
            p.write({"listen": f"127.0.0.2:{second}" if i % 2 == 0 else f"127.0.0.1:{first}"})
            assert p.ask("/reload", "POST").status == 200
    finally:
        is_over.set()
        knocker.join()
    assert misses == []
    p.wait_log("listening", 22, role="proxy")
    assert p.get(u.url()).status == 200


def test_admin_port_moves_and_goes(proxy, origin):
    """The answer to the reload that closes its own listener still comes."""
    u = origin(reply(200))
    p = proxy()
    old = p.admin
    p.write({"admin": "127.0.0.2:0"})
    r = p.ask("/reload", "POST")
    assert r.status == 200 and [each["key"] for each in r.json()["changes"]] == ["admin"]
    p.wait_log("listening", 2, role="admin")
    assert p.admin[0] == "127.0.0.2" and p.ask("/readyz").status == 200
    until(lambda: is_refused(old), 1, "the old admin port to close")
    old = p.admin
    p.write({"admin": "off"})
    assert p.ask("/reload", "POST").status == 200
    until(lambda: is_refused(old), 1, "the admin port to close")
    assert p.get(u.url()).status == 200


def test_fewer_clients_than_there_are(proxy, origin):
    u = origin(reply(200))
    p = proxy()
    clients = [p.client() for _ in range(5)]
    for c in clients:
        assert c.get(u.url()).status == 200
    p.write({"limits": {"client_connections": 2, "upstream_connections": 1}})
    p.hup()
    for c in clients:
        assert c.get(u.url()).status == 200
    waiting = p.client()
    waiting.request("GET", u.url())
    assert waiting.silent(0.2)
    for c in clients[:4]:
        c.close()
    assert waiting.response().status == 200
    for c in (clients[4], waiting):
        c.close()


def test_address_in_use_changes_nothing(proxy, origin):
    u = origin(lambda x: x.reply(503))
    p = proxy(defaults={"retry": {"max_attempts": 2}})
    address, n = p.address, len(p.logs("listening"))
    fresh = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # The free one comes first: it is opened, and closed again.
        p.write({"listen": [f"127.0.0.1:{fresh}", f"127.0.0.1:{port}"], "defaults": {"retry": {"max_attempts": 5}}})
        with p.no_leak():
            r = p.ask("/reload", "POST")
        assert r.status == 422 and str(port) in r.json()["message"] and "in use" in r.json()["message"] and r.json()["faults"] == []
        assert is_refused(("127.0.0.1", fresh))
    assert len(p.logs("listening")) == n and p.address == address
    assert p.get(u.url()).attempts == 2
    assert p.ask("/reload", "POST").status == 200
    p.wait_log("listening", n + 2)
    assert p.get(u.url()).attempts == 5


# case K7
def test_fifty_signals_are_few_reloads(proxy, origin):
    u = origin(delay(0.3, reply(200, b"old")), reply(200, b"new"))
    p = proxy(defaults={"timeouts": {"total": "5s"}})
    with p.no_leak(), p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        for i in range(50):
            p.write({"defaults": {"timeouts": {"total": f"{100 + i}ms"}}})
            p.signal(signal.SIGHUP)
            time.sleep(0.002)
        until(lambda: "total: 149ms" in p.ask("/config").text, 2, "the last file content")
        assert c.response().body == b"old"
    assert 1 <= len(results(p)) <= 50 and {line["result"] for line in results(p)} == {"ok"}


def test_signals_of_one_turn_are_one_reload(proxy):
    p = proxy()
    p.signal(signal.SIGSTOP)
    for _ in range(50):
        p.signal(signal.SIGHUP)
    p.signal(signal.SIGCONT)
    p.wait_log("reload", result="ok")
    p.ask("/livez")
    assert len(results(p)) == 1


def test_hup_then_term_under_load(proxy, origin):
    u = origin(delay(0.3, reply(200, b"done")))
    p = proxy()
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.signal(signal.SIGSTOP)
        p.write({"defaults": {"timeouts": {"total": "50ms"}}, "upstreams": [A]})
        p.signal(signal.SIGHUP)
        p.term()
        p.signal(signal.SIGCONT)
        assert c.response().body == b"done"
    assert p.wait_exit() == 0


def test_reload_while_draining_is_refused(proxy, origin):
    u = origin(delay(0.5, reply(200, b"done")))
    p = proxy(watch="on")
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.term()
        p.wait_log("drain")
        r = p.ask("/reload", "POST")
        assert r.status == 422 and "stopping" in r.json()["message"]
        p.write({"watch": "on", "unmatched": "deny"})
        assert c.response().body == b"done"
    assert p.wait_exit() == 0


# --- watch: on

@pytest.fixture
def watching(proxy, tmp_path):
    """A proxy on tmp_path/etc/policy.yaml, and a function that gives the text of that file."""
    (tmp_path / "etc").mkdir()

    def text(unmatched="allow", **more):
        return yaml.safe_dump({"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "watch": True, "unmatched": unmatched, **more})

    def start(path=None, **more):
        file = path or tmp_path / "etc" / "policy.yaml"
        if not file.exists():
            file.write_text(text(**more))
        return proxy(builtin=True, arguments=["-c", str(file)])
    start.text, start.file, start.folder = text, tmp_path / "etc" / "policy.yaml", tmp_path
    return start


def unmatched(p):
    return p.ask("/config").text.split("\nunmatched: ")[1].split()[0]


def wait_reload(p, count, expected=None, timeout=1.5):
    """Until so many reloads were done, and a little longer: there must not be more."""
    until(lambda: len(results(p)) >= count, timeout, f"reload {count}")
    time.sleep(0.25)
    assert len(results(p)) == count, results(p)
    if expected:
        assert unmatched(p) == expected


def no_reload(p, count, seconds=0.5):
    time.sleep(seconds)
    assert len(results(p)) == count, results(p)


def replace(path, text):
    new = path.with_name(path.name + ".tmp~")
    new.write_text(text)
    os.replace(new, path)


def test_watch_sees_writes_in_place(watching):
    p = watching()
    watching.file.write_text(watching.text("deny"))
    wait_reload(p, 1, "deny")
    watching.file.write_text(watching.text("allow"))
    wait_reload(p, 2, "allow")
    assert p.logs("reload", result="change")[-1]["after"] == "allow"


def test_watch_sees_files_renamed_over(watching):
    p = watching()
    for count, value in enumerate(["deny", "allow", "deny"], 1):
        replace(watching.file, watching.text(value))
        wait_reload(p, count, value)


def test_watch_sees_editors_that_move_the_old_file_away(watching):
    p = watching()
    for count, value in enumerate(["deny", "allow"], 1):
        watching.file.rename(watching.file.with_suffix(".yaml~"))
        time.sleep(0.15)
        watching.file.write_text(watching.text(value))
        wait_reload(p, count, value)


def test_watch_takes_a_flurry_as_one(watching):
    p = watching()
    for _ in range(20):
        watching.file.write_text(watching.text("deny"))
        time.sleep(0.01)
    wait_reload(p, 1, "deny")


def test_watch_is_not_put_off_by_a_busy_neighbour(watching):
    p = watching()
    is_over = threading.Event()

    def scribble():
        while not is_over.wait(0.02):
            (watching.file.parent / "neighbour").write_text("x")
            watching.file.with_suffix(".yaml.tmp").write_text("x")
    neighbour = threading.Thread(target=scribble)
    neighbour.start()
    try:
        no_reload(p, 0)
        replace(watching.file, watching.text("deny"))
        wait_reload(p, 1, "deny")
        no_reload(p, 1)
    finally:
        is_over.set()
        neighbour.join()


def test_watch_never_waits_for_ever(watching):
    """A file that is written to all the time is read all the same."""
    p = watching()
    end = time.monotonic() + 3
    while time.monotonic() < end and not results(p):
        watching.file.write_text(watching.text("deny"))
        time.sleep(0.02)
    assert results(p)
    until(lambda: unmatched(p) == "deny")


def test_watch_keeps_old_policies_when_faulty(watching):
    p = watching()
    watching.file.write_text("unmatched: [\n")
    wait_reload(p, 1, "allow")
    assert results(p)[0]["result"] == "failed"
    watching.file.write_text(watching.text("deny"))
    wait_reload(p, 2, "deny")


def test_watch_survives_that_the_file_is_gone(watching):
    p = watching()
    watching.file.unlink()
    no_reload(p, 0)
    watching.file.write_text(watching.text("deny"))
    wait_reload(p, 1, "deny")


def test_watch_survives_that_the_directory_is_remade(watching):
    p = watching()
    for count, value in enumerate(["deny", "allow"], 1):
        shutil.rmtree(watching.file.parent)
        time.sleep(0.2)
        watching.file.parent.mkdir()
        time.sleep(0.2)
        watching.file.write_text(watching.text(value))
        wait_reload(p, count, value)
    other = watching.folder / "other"
    other.mkdir()
    (other / "policy.yaml").write_text(watching.text("deny"))
    watching.file.parent.rename(watching.folder / "old")
    other.rename(watching.file.parent)
    wait_reload(p, 3, "deny")
    (watching.folder / "old" / "policy.yaml").write_text(watching.text("allow"))
    no_reload(p, 3)


def test_watch_follows_chains_of_links(watching):
    """start -> middle/link -> end/policy.yaml, through a directory that is a link too; any of them may be set anew."""
    base = watching.folder
    for name in ("middle", "end", "end2", "real"):
        (base / name).mkdir()
    (base / "end" / "policy.yaml").write_text(watching.text("allow"))
    (base / "end2" / "policy.yaml").write_text(watching.text("deny"))
    (base / "middle" / "link").symlink_to("../end/policy.yaml")
    (base / "door").symlink_to("middle")
    start = base / "start.yaml"
    start.symlink_to(base / "door" / "link")
    p = watching(start)

    def relink(path, target):
        new = path.with_name(path.name + "-new")
        new.symlink_to(target)
        os.replace(new, path)
    relink(base / "middle" / "link", "../end2/policy.yaml")      # a link in the middle
    wait_reload(p, 1, "deny")
    (base / "end2" / "policy.yaml").write_text(watching.text("allow"))
    wait_reload(p, 2, "allow")
    (base / "end" / "policy.yaml").write_text("nobody reads this\n")
    no_reload(p, 2)
    (base / "real" / "link").write_text(watching.text("deny"))
    relink(base / "door", "real")                                # the directory
    wait_reload(p, 3, "deny")
    relink(start, base / "end2" / "policy.yaml")                 # the first link
    wait_reload(p, 4, "allow")


class ConfigMap:
    """A volume as the kubelet keeps it: policy.yaml -> ..data/policy.yaml, ..data -> ..VERSION, swapped by rename."""

    def __init__(self, folder):
        self.folder, self.version = folder, 0
        folder.mkdir(exist_ok=True)

    def swap(self, **files):
        self.version += 1
        old = self.folder / f"..{self.version - 1}"
        new = self.folder / f"..{self.version}"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text)
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        (self.folder / "..data_tmp").symlink_to(new.name)
        os.rename(self.folder / "..data_tmp", self.folder / "..data")
        if old.exists():
            shutil.rmtree(old)
        return new


def test_watch_follows_config_maps(watching):
    volume = ConfigMap(watching.folder / "volume")
    volume.swap(policy=watching.text("allow"))
    p = watching(volume.folder / "policy")
    for count, value in enumerate(["deny", "allow", "deny"], 1):
        volume.swap(policy=watching.text(value))
        wait_reload(p, count, value)


def test_watch_follows_a_swap_to_the_same_content(watching):
    """What is written into the new directory later must be seen."""
    volume = ConfigMap(watching.folder / "volume")
    first = volume.swap(policy=watching.text("allow"))
    stat = (first / "policy").stat()
    p = watching(volume.folder / "policy")
    # A hard link: device, inode, size and time stay as they are, and only the way to the file is another one.
    new = volume.folder / "..same"
    new.mkdir()
    os.link(first / "policy", new / "policy")
    (volume.folder / "..data_tmp").symlink_to(new.name)
    os.rename(volume.folder / "..data_tmp", volume.folder / "..data")
    shutil.rmtree(first)
    assert (volume.folder / "policy").stat().st_ino == stat.st_ino
    no_reload(p, 0)
    replace(new / "policy", watching.text("deny"))
    wait_reload(p, 1, "deny")


def test_watch_follows_a_swap_to_a_faulty_file_and_its_mending(watching):
    volume = ConfigMap(watching.folder / "volume")
    volume.swap(policy=watching.text("allow"))
    p = watching(volume.folder / "policy")
    bad = volume.swap(policy="unmatched: [\n")
    wait_reload(p, 1, "allow")
    replace(bad / "policy", watching.text("deny"))
    wait_reload(p, 2, "deny")


def test_watch_sees_writes_through_another_name(watching):
    """As when a single file is mounted into a container, whose directory never hears of the write."""
    p = watching()
    (watching.folder / "far").mkdir()
    os.link(watching.file, watching.folder / "far" / "name")
    no_reload(p, 0, 0.3)
    (watching.folder / "far" / "name").write_text(watching.text("deny"))
    wait_reload(p, 1, "deny")


def test_watch_sees_certificates(watching, origin, authority):
    ca = watching.folder / "certs" / "ca.pem"
    ca.parent.mkdir()
    shutil.copy(authority.self_signed("stranger")[0], ca)
    u = origin(reply(200, b"known"), tls=authority.server())
    p = watching(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"originate": True, "ca_file": str(ca)}}])
    problem(p.get(u.url(host="localhost")), 502, "tls_certificate_error")
    replace(ca, open(authority.ca, encoding="ascii").read())
    wait_reload(p, 1)
    assert p.get(u.url(host="localhost")).body == b"known"
    (ca.parent / "neighbour.pem").write_text("x")
    no_reload(p, 1)


def test_watch_turns_on_and_off_by_reload(watching):
    p = watching(watch=False)
    watching.file.write_text(watching.text("deny"))
    no_reload(p, 0)
    p.hup()
    assert unmatched(p) == "deny"
    watching.file.write_text(watching.text("allow"))
    wait_reload(p, 2, "allow")
    watching.file.write_text(watching.text("allow", watch=False))
    wait_reload(p, 3)
    watching.file.write_text(watching.text("deny", watch=False))
    no_reload(p, 3)


def test_watch_does_not_read_twice_what_a_signal_had_read(watching):
    p = watching()
    watching.file.write_text(watching.text("deny"))
    p.hup()
    no_reload(p, 1)
    watching.file.write_text("unmatched: [\n")
    assert p.hup()["result"] == "failed"
    no_reload(p, 2)


def test_watch_outlives_an_overflow_of_events(watching):
    """More events than the kernel queues for a process that is stopped."""
    p = watching()
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as stream:
        limit = int(stream.read())
    if limit > 50000:
        pytest.skip(f"the kernel queues {limit} events")
    p.signal(signal.SIGSTOP)
    names = [watching.file.with_name(f"n{i}") for i in range(2)]
    for i in range(limit // 2 + 100):
        names[i % 2].touch()
        names[i % 2].unlink()
    watching.file.write_text(watching.text("deny"))
    p.signal(signal.SIGCONT)
    wait_reload(p, 1, "deny", timeout=3)


def test_watch_looks_by_itself_where_no_event_comes(watching):
    """Here: a write that leaves no event behind, through a mapping of the file."""
    import mmap
    p = watching()
    old = watching.file.read_bytes()
    new = old.replace(b"allow", b"deny ")
    with open(watching.file, "r+b") as stream:
        with mmap.mmap(stream.fileno(), len(old)) as mapping:
            time.sleep(0.05)
            mapping[:] = new
            mapping.flush()
            until(lambda: results(p), 6, "the look that is taken now and then")
    until(lambda: unmatched(p) == "deny", 6)


def test_watch_leaks_nothing(watching):
    p = watching()
    fds = p.fds()
    for i in range(20):
        replace(watching.file, watching.text("deny" if i % 2 else "allow", upstreams=[{"name": f"n{i}", "match": {"hosts": ["h.test"]}}]))
        until(lambda: len(results(p)) > i, 2)  # noqa: B023
    until(lambda: p.fds() <= fds, 1)
