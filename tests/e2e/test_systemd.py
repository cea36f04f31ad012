"""What a service manager does: sockets that are handed in, readiness, reloads, the watchdog's beat. No systemd is needed."""
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from harness import BIN, Client, Proxy, at_most, delay, reply, took, until

# Execs the program as systemd does: descriptors from 3 on, LISTEN_PID being the process itself.
HANDING_IN = """
import os, sys
names, fds, pid, command = sys.argv[1], [int(fd) for fd in sys.argv[2].split(",") if fd], sys.argv[3], sys.argv[4:]
high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
    os.close(fd)
os.environ["LISTEN_FDS"] = str(len(fds))
os.environ["LISTEN_PID"] = pid or str(os.getpid())
if names:
    os.environ["LISTEN_FDNAMES"] = names
os.execv(command[0], command)
"""


def listening(address=("127.0.0.1", 0), family=socket.AF_INET):
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(address)
    sock.listen(128)
    return sock


class Activated(Proxy):
    """A proxy that is given sockets."""
    sockets, names, pid_said = (), "", ""

    def start(self):
        import harness.proxy as module
        fds = [sock.fileno() for sock in self.sockets]
        before = module.WRAP
        module.WRAP = [sys.executable, "-c", HANDING_IN, self.names, ",".join(map(str, fds)), self.pid_said, *before]
        popen = subprocess.Popen
        try:
            subprocess.Popen = lambda *a, **k: popen(*a, pass_fds=fds, **k)
            super().start()
        finally:
            subprocess.Popen = popen
            module.WRAP = before


@pytest.fixture
def activated(makers, tmp_path_factory):
    def make(sockets, names="", pid="", env=None, **policy):
        made = Activated(tmp_path_factory.mktemp("proxy"), policy, env=env, start=False)
        made.sockets, made.names, made.pid_said = sockets, names, pid
        makers.add(made)
        made.start()
        return made
    return make


def at(sock):
    return "%s:%d" % sock.getsockname()[:2]


# --- sockets

def test_sockets_are_matched_by_address_not_by_order(activated, origin):
    u = origin(reply(200, b"yes"))
    with listening() as admin, listening() as main:
        p = activated([admin, main], "x:y", listen=at(main), admin=at(admin))
        assert (p.address, p.admin) == (main.getsockname(), admin.getsockname())
        assert p.get(u.url()).body == b"yes"
        assert p.ask("/readyz").status == 200
        assert p.logs("activation") == []


def test_nothing_of_it_stays_in_the_environment_or_in_children(activated):
    with listening() as main:
        p = activated([main], listen=at(main))
        with open(f"/proc/{p.pid}/environ", "rb") as stream:
            assert b"LISTEN_FDS=1" in stream.read()  # the start's; libc's copy is what counts:
        p.signal(signal.SIGUSR2)                      # a process that takes over gets one set, of its own
        until(lambda: [l for l in p.logs("upgrade") if "taken over" in l["message"]], 5, "the new process")
        heir = int([l for l in p.logs("upgrade") if "taken over" in l["message"]][0]["message"].split()[1])
        try:
            with open(f"/proc/{heir}/environ", "rb") as stream:
                variables = stream.read().split(b"\0")
            assert sum(v.startswith(b"LISTEN_PID=") for v in variables) == 1
            assert b"LISTEN_PID=%d" % heir in variables
            assert p.wait_exit() == 0
        finally:
            os.kill(heir, signal.SIGTERM)


def test_sockets_for_another_process_are_left_alone(tmp_path):
    with listening() as main:
        fd = main.fileno()
        done = subprocess.run([sys.executable, "-c", HANDING_IN, "", str(fd), "1", BIN, "--listen", at(main), "--admin", "off"],
                              pass_fds=[fd], capture_output=True, text=True, timeout=10)
        assert done.returncode == 1 and "in use" in done.stderr


def test_connections_that_came_before_the_start_are_served(activated, origin):
    u = origin(reply(200, b"yes"))
    with listening() as main:
        with Client(main.getsockname()) as early:
            early.request("GET", u.url())
            activated([main], listen=at(main))
            assert early.response().body == b"yes"


def test_unix_socket_of_the_manager_is_not_removed(activated, origin, tmp_path):
    u = origin(reply(200, b"yes"))
    path = str(tmp_path / "p.sock")
    with listening(path, socket.AF_UNIX) as main:
        p = activated([main], listen=["unix:" + path, "127.0.0.1:0"])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % u.url().encode())
            assert b"yes" in client.makefile("rb").read()
        p.term()
        assert p.wait_exit() == 0
        assert os.path.exists(path)


def test_socket_on_every_address_of_both_families(activated, origin):
    u = origin(reply(200, b"yes"))
    with socket.socket(socket.AF_INET6) as main:
        main.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        main.bind(("::", 0))
        main.listen(16)
        port = main.getsockname()[1]
        activated([main], listen=f"0.0.0.0:{port}")
        with Client(("127.0.0.1", port)) as client:
            assert client.get(u.url()).body == b"yes"


def test_a_socket_that_no_address_asks_for_is_warned_of(activated):
    with listening() as main, listening() as other:
        p = activated([main, other], "main:other", listen=at(main))
        (line,) = p.logs("activation")
        assert line["level"] == "warn" and at(other) in line["message"] and "(other)" in line["message"]


def test_what_is_no_listening_socket_is_refused(activated, origin):
    u = origin(reply(200))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with listening() as main, datagrams, open("/dev/null", "rb") as file:
        p = activated([datagrams, file, main], listen=at(main))
        assert len(p.logs("activation")) == 2
        assert all("no listening stream socket" in line["message"] for line in p.logs("activation"))
        assert p.get(u.url()).status == 200


@pytest.mark.parametrize("fds", ["", "-1", "abc", "99999999999999999999", "2x"])
def test_nonsense_in_listen_fds(tmp_path, fds):
    env = {**os.environ, "LISTEN_FDS": fds}
    process = subprocess.Popen(["/bin/sh", "-c", f"LISTEN_PID=$$ exec '{BIN}' --listen 127.0.0.1:0 --admin off"],
                               env=env, stderr=subprocess.PIPE)
    line = process.stderr.readline() + process.stderr.readline()
    process.terminate()
    assert process.wait(5) == 0 and b"LISTEN_FDS is not a number" in line + process.stderr.read()
    process.stderr.close()


def test_address_that_leaves_and_comes_back_in_reloads(activated, origin):
    u = origin(lambda x: x.reply(200))
    with listening() as main, listening() as second:
        p = activated([main, second], listen=[at(main), at(second)])
        p.write({"listen": at(main)})
        p.hup()
        p.write({"listen": [at(main), at(second)]})
        assert p.hup()["result"] == "ok"
        with Client(second.getsockname()) as client:
            assert client.get(u.url()).status == 200


def test_restart_refuses_no_connection(activated, origin):
    """A connection for each request, while the process is stopped and started anew on the same socket."""
    u = origin(lambda x: x.reply(200, b"yes"))
    faults, n, stop = [], [0], threading.Event()
    with listening() as main:
        def load():
            while not stop.is_set():
                try:
                    with Client(main.getsockname()) as client:
                        response = client.get(u.url(), [("Connection", "close")])
                        assert (response.status, response.body) == (200, b"yes")
                        n[0] += 1
                except Exception as fault:  # noqa: BLE001 - counted
                    faults.append(repr(fault))

        p = activated([main], listen=at(main))
        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(0.3)
            p.term()
            assert p.wait_exit() == 0
            p = activated([main], listen=at(main))
        time.sleep(0.2)
        stop.set()
        for thread in threads:
            thread.join(10)
    assert faults == [] and n[0] > 50


# --- what the manager is told

class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, folder, abstract=False):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"evenkeel-test-{os.getpid()}-{time.monotonic_ns()}" if abstract else str(folder / "notify")
        self.socket.bind(("\0" if abstract else "") + name)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.env = {"NOTIFY_SOCKET": ("@" if abstract else "") + name}

    def next(self, timeout=5):
        """(fields, process id)"""
        self.socket.settimeout(timeout)
        data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        pid = int.from_bytes(ancillary[0][2][:4], sys.byteorder)
        assert data.endswith(b"\n")
        return dict(line.split("=", 1) for line in data.decode().split("\n")[:-1]), pid

    def nothing(self, seconds):
        try:
            got = self.next(seconds)
        except TimeoutError:
            return
        raise AssertionError(got)

    def stop(self):
        self.socket.close()


@pytest.fixture
def manager(makers, tmp_path):
    return lambda **more: makers.add(Manager(tmp_path, **more))


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_when_it_listens_and_stopping(proxy, manager, abstract):
    m = manager(abstract=abstract)
    p = proxy(env=m.env)
    fields, pid = m.next()
    assert fields["READY"] == "1" and pid == p.pid
    with Client(p.address):
        pass  # it does listen
    p.term()
    assert m.next()[0]["STOPPING"] == "1"
    assert p.wait_exit() == 0
    m.nothing(0.1)


def test_reload_is_told_from_begin_to_end(proxy, manager):
    m = manager()
    p = proxy(env=m.env)
    m.next()
    for good in True, False:
        p.write({} if good else None, None if good else "nonsense: 1\n")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert (p.hup()["result"] == "ok") == good
        fields, _ = m.next()
        assert fields["RELOADING"] == "1"
        assert before <= int(fields["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert m.next()[0]["READY"] == "1"  # with a fault too: the old policies are in force


def test_not_ready_when_it_cannot_start(manager, tmp_path):
    m = manager()
    (tmp_path / "bad.yaml").write_text("nonsense: 1\n")
    done = subprocess.run([BIN, "-c", tmp_path / "bad.yaml"], env={**os.environ, **m.env}, capture_output=True)
    assert done.returncode == 1
    m.nothing(0.1)


def test_watchdog_is_fed_at_half_its_time_also_under_load(proxy, manager, origin):
    u = origin(lambda x: x.reply(200))
    m = manager()
    start = before = time.monotonic()
    p = proxy(env={**m.env, "WATCHDOG_USEC": "400000"})
    m.next()
    for n in range(4):
        p.get(u.url())
        fields, _ = m.next()
        now = time.monotonic()
        assert fields == {"WATCHDOG": "1"}
        assert now - start >= (n + 1) * 0.2, "too early"
        assert n == 0 or now - before <= at_most(0.2, before), "too late"
        before = now


def test_watchdog_is_fed_while_it_drains(proxy, manager, origin):
    u = origin(delay(1.2, reply(200, b"late")))
    m = manager()
    p = proxy(env={**m.env, "WATCHDOG_USEC": "400000"})
    m.next()
    with p.client() as c:
        c.request("GET", u.url())
        u.wait(n=1)
        p.term()
        seen = [m.next()[0] for _ in range(4)]
        assert {"WATCHDOG": "1"} in seen[-2:] and any("STOPPING" in fields for fields in seen)
        assert c.response().body == b"late"
    assert p.wait_exit() == 0


def test_watchdog_of_another_process_is_not_fed(proxy, manager):
    m = manager()
    proxy(env={**m.env, "WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"})
    m.next()
    m.nothing(0.4)


def test_a_manager_that_is_gone_does_no_harm(proxy, tmp_path, origin):
    u = origin(reply(200))
    p = proxy(env={"NOTIFY_SOCKET": str(tmp_path / "gone")})
    assert p.get(u.url()).status == 200
    assert [line["level"] for line in p.logs("notify")] == ["warn"]
