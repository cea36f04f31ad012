"""`evenkeel health`: what a container's health check runs."""
import signal
import socket
import threading
import time

import pytest

from harness import free_port, run_evenkeel, took, until


def health(*arguments, code, said=""):
    done = run_evenkeel("health", *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr == said, done.stderr


def not_healthy(why):
    return f"evenkeel: not healthy: {why}\n"


class Scripted:
    """A listener on the loopback that says one thing to whoever connects, and keeps what it was asked."""

    def __init__(self, answer, host="127.0.0.1", wait=0.0):
        self.socket = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self.socket.getsockname()[1]
        self.asked = b""
        self.answer, self.wait = answer, wait
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.socket.accept()
        with connection:
            while b"\r\n\r\n" not in self.asked:
                data = connection.recv(1000)
                if not data:
                    return
                self.asked += data
            for piece in self.answer:
                connection.sendall(piece)
                time.sleep(self.wait)

    def stop(self):
        self.thread.join(5)
        self.socket.close()


@pytest.fixture
def scripted(makers):
    return lambda *answer, **more: makers.add(Scripted(answer, **more))


def test_a_running_proxy_is_healthy(proxy):
    host, port = proxy().admin
    health("--admin", f"{host}:{port}", code=0)
    health("--admin", f"{host}:{port}", "--ready", code=0)


def test_a_draining_proxy_is_alive_but_not_ready(proxy):
    p = proxy(drain={"delay": "3s", "timeout": "1s"})
    address = "%s:%d" % p.admin
    p.signal(signal.SIGTERM)
    until(lambda: p.ask("/readyz").status == 503, what="draining")
    health("--admin", address, code=0)
    health("--admin", address, "--ready", code=1, said=not_healthy(f"/readyz of {address}: not ready, status 503"))


def test_the_address_comes_from_the_policy_file(proxy, tmp_path):
    host, port = proxy().admin
    file = tmp_path / "policy.yaml"
    file.write_text(f"admin: {host}:{port}\n", encoding="utf-8")
    health("-c", file, code=0)
    file.write_text(f"admin: 0.0.0.0:{port}\n", encoding="utf-8")  # is asked on the loopback
    health("-c", file, code=0)
    other = free_port()
    file.write_text(f"admin: 127.0.0.1:{other}\n", encoding="utf-8")
    health("-c", file, code=1, said=not_healthy(f"/livez of 127.0.0.1:{other}: Connection refused"))
    health("-c", file, "--admin", f"{host}:{port}", code=0)  # the option beats the file
    file.write_text("admin: off\n", encoding="utf-8")
    health("-c", file, code=1, said=not_healthy("the admin port is off, so there is nobody to ask"))
    file.write_text("admin: 127.0.0.1:0\n", encoding="utf-8")
    health("-c", file, code=1, said=not_healthy("the admin port is 0, any free one: say with --admin which it is"))
    file.write_text("adnin: off\nlisten: x\n", encoding="utf-8")
    health("-c", file, code=1, said=not_healthy(f"{file}: 2 faults (evenkeel check shows them)"))


def test_over_a_unix_socket(proxy, tmp_path):
    path = tmp_path / "admin.sock"
    p = proxy(admin=f"unix:{path}")
    health("-c", p.file, code=0)
    health("--admin", f"unix:{path}", "--ready", code=0)
    gone = tmp_path / "none.sock"
    health("--admin", f"unix:{gone}", code=1, said=not_healthy(f"/livez of unix:{gone}: No such file or directory"))


def test_what_it_asks(scripted):
    server = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    health("--admin", f"127.0.0.1:{server.port}", "--ready", code=0)
    assert server.asked == b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_ipv6(scripted):
    server = scripted(b"HTTP/1.0 200 OK\r\n\r\n", host="::1")
    health("--admin", f"[::1]:{server.port}", code=0)


@pytest.mark.parametrize("answer, why", [
    ((b"HTTP/1.1 500 Oops\r\n\r\n",), "HTTP/1.1 500"),
    ((b"HTTP/1.1 2000\r\n\r\n",), None),
    ((b"HTTP/1.1 2", b"0", b"0 OK\r\n\r\n"), None),
    ((b"SSH-2.0-OpenSSH_9\r\n",), "the answer is not HTTP"),
    ((b"HTTP/1.1 20\r\n",), "the answer is not HTTP"),
    ((b"HTTP/1.1 200",), None),
    ((b"HTTP/1.1 ",), "the connection was closed without an answer"),
    ((), "the connection was closed without an answer"),
])
def test_answers(scripted, answer, why):
    server = scripted(*answer, wait=0.05)
    address = f"127.0.0.1:{server.port}"
    health("--admin", address, code=1 if why else 0, said=not_healthy(f"/livez of {address}: {why}") if why else "")


def test_silence_is_not_waited_for(scripted):
    server = scripted(b"HTTP/1.1", b" ", b"2", b"0", wait=0.7)  # trickling doesn't buy time
    address = f"127.0.0.1:{server.port}"
    with took(1.9, 2.3):
        health("--admin", address, code=1, said=not_healthy(f"/livez of {address}: no answer within 2 s"))


def test_connecting_is_not_waited_for(blackhole):
    address = "127.0.0.1:%d" % blackhole.port
    with took(1.9, 2.3):
        health("--admin", address, code=1, said=not_healthy(f"/livez of {address}: no answer within 2 s"))


def test_without_anything_it_asks_the_built_in_address():
    done = run_evenkeel("health")
    assert (done.returncode, done.stderr) in [
        (1, not_healthy("/livez of 127.0.0.1:9128: Connection refused")), (0, "")]


def test_a_bad_address():
    health("--admin", "localhost:9128", code=1, said=not_healthy(
        '--admin localhost:9128: "localhost:9128": names are not resolved here: write 127.0.0.1:9128'))
