"""SIGUSR2: the program at this one's path takes over while work goes on, and no client notices."""
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import harness.proxy
from harness import BIN, Client, Proxy, delay, free_port, patience, reply, until


class Upgradable(Proxy):
    """A proxy at fixed ports, whose program is a copy that a test may replace. All its generations write to one log."""

    def start(self):
        self.program = os.path.join(self.folder, "evenkeel")
        shutil.copy(BIN, self.program)
        before = harness.proxy.BIN
        harness.proxy.BIN = self.program
        try:
            super().start()
        finally:
            harness.proxy.BIN = before
        self.pids = [self.process.pid]

    def results(self):
        return [line for line in self.logs("upgrade") if "taken over" in line["message"] or line["level"] == "error"]

    def upgrade(self):
        """The line that says what came of it."""
        n = len(self.results())
        os.kill(self.pids[-1], signal.SIGUSR2)
        line = until(lambda: self.results()[n:], 10, "the result of the upgrade")[0]
        found = re.match(r"process (\d+) has taken over", line["message"])
        if found:
            self.pids.append(int(found[1]))
        return line

    @property
    def pid(self):
        return self.pids[-1]

    def stop(self):
        """The youngest first; each must end by itself."""
        for pid in reversed(self.pids[1:]):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        super().stop()
        for pid in self.pids[1:]:
            until(lambda: not is_running(pid), 5, f"the end of process {pid}")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def upgradable(makers, tmp_path_factory):
    if harness.proxy.WRAP:
        pytest.skip("the program under test runs inside another one")

    def make(env=None, **policy):
        policy = {"listen": f"127.0.0.1:{free_port()}", "admin": f"127.0.0.1:{free_port()}", **policy}
        made = Upgradable(tmp_path_factory.mktemp("proxy"), policy, env=env, start=False)
        makers.add(made)
        made.start()
        return made
    return make


class Load:
    """Threads that send requests; every one must get its own answer."""

    def __init__(self, proxy, url, keeps_alive, method="GET"):
        self.proxy, self.url, self.keeps_alive, self.method = proxy, url, keeps_alive, method
        self.address = proxy.address
        self.faults, self.n, self.at = [], 0, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client, k = None, 0
        while not self.ended.is_set():
            k += 1
            try:
                client = client or Client(self.address)
                headers = [] if self.keeps_alive else [("Connection", "close")]
                path = f"/{self.thread.ident}/{k}"
                response = client.fetch(self.method, self.url + path, headers, b"x" * 1000 if self.method == "POST" else None)
                assert (response.status, response.body) == (200, path.encode()), response
                self.n += 1
                self.at.append(time.monotonic())
                if not self.keeps_alive or (response.header("Connection") or "").lower() == "close":
                    client.close()
                    client = None
            except Exception as fault:  # noqa: BLE001 - counted
                self.faults.append(repr(fault))
                if client:
                    client.close()
                client = None
        if client:
            client.close()

    def stop(self):
        self.ended.set()
        self.thread.join(20)


def answer(x):
    """The target as the body; now and then in two pieces, so that a hand-over falls between them."""
    body = x.request.target.encode()
    if not body.endswith(b"7"):
        x.reply(200, body)
        return
    x.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n/\r\n")
    x.sleep(0.05)
    x.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - 1, body[1:]))


def test_under_load_nothing_is_refused_or_fails(upgradable, origin):
    u = origin(answer)
    p = upgradable()
    url = u.url("")
    loads = [Load(p, url, alive, method) for alive in (True, False) for method in ("GET", "POST") for _ in range(2)]
    try:
        for _ in range(4):
            time.sleep(0.3)
            os.replace(shutil.copy(BIN, p.program + ".new"), p.program)  # as a package manager does
            assert "has taken over" in p.upgrade()["message"]
        time.sleep(0.3)
    finally:
        for load in loads:
            load.stop()
    assert [load.faults for load in loads] == [[]] * 8
    assert all(load.n > 20 for load in loads), [load.n for load in loads]
    # The longest time that anybody went without an answer.
    gaps = [b - a for load in loads for a, b in zip(load.at, load.at[1:])]
    assert max(gaps) < patience(1.0)
    for pid in p.pids[:-1]:
        until(lambda: not is_running(pid), 5, "the end of an older process")
    assert p.process.wait(5) == 0 and is_running(p.pids[-1])


def test_new_program_new_policies_old_work(upgradable, origin):
    u = origin(lambda x: (delay(0.8, reply(200, b"old")) if x.request.target == "/slow" else reply(503))(x))
    p = upgradable(defaults={"retry": {"max_attempts": 2}})
    with p.client() as slow, p.client() as idle:
        assert idle.get(u.url("/x")).attempts == 2
        slow.request("GET", u.url("/slow"))
        u.wait(n=3)
        p.write({"listen": "%s:%d" % p.address, "admin": "%s:%d" % p.admin, "defaults": {"retry": {"max_attempts": 3}}})
        p.upgrade()
        assert p.get(u.url("/x")).attempts == 3            # the new process, the policy file read anew
        response = idle.get(u.url("/x"))                    # the old one still serves a connection that it has, once
        assert response.attempts == 2 and response.header("Connection").lower() == "close"
        assert p.ask("/readyz").status == 200               # the admin port is the new one's
        assert slow.response().body == b"old"
        assert p.metric("process_start_time_seconds") >= time.time() - 30
    assert p.process.wait(5) == 0


def test_new_program_that_does_not_start_changes_nothing(upgradable, origin):
    u = origin(lambda x: x.reply(200))
    p = upgradable()
    good = "listen: %s:%d\nadmin: %s:%d\n" % (*p.address, *p.admin)

    def still_there(line, why):
        assert line["level"] == "error" and why in line["message"]
        assert p.get(u.url()).status == 200 and p.ask("/readyz").status == 200 and p.process.poll() is None

    p.write(text=good + "nonsense: 1\n")
    still_there(p.upgrade(), "ended before it was ready")
    assert any("nonsense" in line for line in p.noise)       # the new one said what it was
    p.noise.clear()
    p.write(text=good)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        p.write(text=good.replace("\n", ", 127.0.0.1:%d]\n" % taken.getsockname()[1], 1).replace("listen: ", "listen: ["))
        still_there(p.upgrade(), "ended before it was ready")
        p.noise.clear()
    p.write(text=good)

    os.replace(shutil.copy("/bin/false", p.program + ".new"), p.program)
    still_there(p.upgrade(), "ended before it was ready")
    with open(p.program + ".new", "w", encoding="ascii") as stream:
        stream.write("no program\n")
    os.chmod(p.program + ".new", 0o755)
    os.replace(p.program + ".new", p.program)
    still_there(p.upgrade(), "ended before it was ready")
    os.remove(p.program)
    still_there(p.upgrade(), "no longer where it was")

    shutil.copy(BIN, p.program)
    assert "has taken over" in p.upgrade()["message"]
    assert p.get(u.url()).status == 200
    assert p.process.wait(5) == 0


def test_one_at_a_time(upgradable, origin):
    u = origin(reply(200))
    p = upgradable()
    with open(p.program + ".new", "w", encoding="ascii") as stream:
        stream.write("#!/bin/sh\nexec sleep 1\n")
    os.chmod(p.program + ".new", 0o755)
    os.replace(p.program + ".new", p.program)
    os.kill(p.pid, signal.SIGUSR2)
    until(lambda: p.logs("upgrade"), 3, "the first")
    assert "on its way already" in p.upgrade()["message"]
    until(lambda: len(p.results()) == 2, 5, "the end of the first")
    assert "ended before it was ready" in p.results()[1]["message"]
    assert p.get(u.url()).status == 200


def test_stop_while_the_new_one_starts(upgradable):
    p = upgradable()
    with open(p.program + ".new", "w", encoding="ascii") as stream:
        stream.write("#!/bin/sh\nexec sleep 20\n")
    os.chmod(p.program + ".new", 0o755)
    os.replace(p.program + ".new", p.program)
    os.kill(p.pid, signal.SIGUSR2)
    child = int(re.search(r"process (\d+)", until(lambda: p.logs("upgrade"), 3, "it")[0]["message"])[1])
    p.term()
    assert p.wait_exit() == 0
    until(lambda: not is_running(child), 1, "the end of the new one")


def test_stop_during_the_hand_over_lets_work_finish(upgradable, origin):
    u = origin(delay(1.0, reply(200, b"late")))
    p = upgradable()
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.upgrade()
        for pid in p.pids:                                   # what a service manager does to the whole group
            os.kill(pid, signal.SIGTERM)
        assert c.response().body == b"late"
    assert p.process.wait(5) == 0
    until(lambda: not is_running(p.pids[-1]), 3, "the end of the new one")


def test_socket_files_stay_and_go_with_the_last(upgradable, origin, tmp_path):
    u = origin(lambda x: x.reply(200, b"yes"))
    path = str(tmp_path / "p.sock")
    p = upgradable(listen=["unix:" + path, f"127.0.0.1:{free_port()}"])

    def ask():
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(path)
            client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % u.url().encode())
            return b"yes" in client.makefile("rb").read()

    inode = os.stat(path).st_ino
    for _ in range(2):
        assert ask()
        p.upgrade()
    assert p.process.wait(5) == 0
    assert ask() and os.stat(path).st_ino == inode
    p.term()
    until(lambda: not is_running(p.pid), 3, "the end")
    assert not os.path.exists(path)


def test_address_that_is_no_longer_wanted_is_closed(upgradable, origin):
    u = origin(lambda x: x.reply(200))
    first, second = free_port(), free_port()
    p = upgradable(listen=[f"127.0.0.1:{first}", f"127.0.0.1:{second}"])
    admin = "%s:%d" % p.admin
    p.write({"listen": f"127.0.0.1:{first}", "admin": admin})
    p.upgrade()
    assert p.process.wait(5) == 0
    with Client(("127.0.0.1", first)) as client:
        assert client.get(u.url()).status == 200
    with pytest.raises(ConnectionRefusedError), socket.socket() as late:
        late.connect(("127.0.0.1", second))


def test_service_manager_is_told_who_is_the_main_process(upgradable, tmp_path, origin):
    from test_systemd import Manager
    u = origin(lambda x: x.reply(200))
    m = Manager(tmp_path)
    p = upgradable(env={**m.env, "WATCHDOG_USEC": "600000"})
    assert "READY" in m.next()[0]
    p.upgrade()
    heir = p.pids[-1]
    said = []
    until(lambda: said.append(m.next()) or len(said) >= 6, 5, "what is told")
    said = [(fields, pid) for fields, pid in said]
    handed = [i for i, (fields, _) in enumerate(said) if fields == {"MAINPID": str(heir)}]
    assert len(handed) == 1
    assert any("READY" in fields and pid == heir for fields, pid in said)
    # From then on the older one is silent, and the new one feeds the watchdog.
    assert {pid for _, pid in said[handed[0] + 1:]} == {heir}
    assert ({"WATCHDOG": "1"}, heir) in said
    assert p.get(u.url()).status == 200
    m.stop()
