"""Memory and descriptors stay bounded whatever the peers do."""
import threading
import time

from harness import Client, hold, reply, took, until


# case L3
def test_slow_reader_holds_the_origin_back(proxy, origin):
    sent = {"n": 0}

    def step(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        while True:
            x.send(b"a" * 65536)
            sent["n"] += 65536
    u = origin(step)
    p = proxy()
    with p.no_leak():
        with p.client() as c:
            c.request("GET", u.url()).head()
            until(lambda: (sent["n"], time.sleep(0.3))[0] == sent["n"], 5, "the origin to be held back")  # the kernel's buffers are full
            before, at = p.rss(), sent["n"]
            for _ in range(5):
                time.sleep(0.1)
                c.socket.recv(1024)
            assert p.rss() - before < 1_000_000
            assert sent["n"] - at < 2_000_000, "the origin's send must block"


def test_slow_reader_gets_everything(proxy, origin):
    data = bytes(range(256)) * 40000
    u = origin(lambda x: (x.reply(200, data), x.close()))
    with proxy().client() as c:
        head = c.request("GET", u.url()).head()
        for _ in range(10):
            time.sleep(0.03)
            c.fill()
        c.body(head)
        assert head.body == data


# case L7
def test_upload_that_nobody_reads(proxy, origin):
    u = origin(on_connection=lambda conn: conn.sleep(5))
    p = proxy()
    with p.client() as c:
        c.send(f"PUT {u.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n")
        c.socket.settimeout(0.3)
        sent = 0
        try:
            while sent < 100_000_000:
                c.socket.sendall(b"x" * 65536)
                sent += 65536
        except TimeoutError:
            pass
        assert sent < 20_000_000, "the proxy must stop reading"
        assert p.rss() < 100e6


def test_many_idle_clients_are_cheap(proxy):
    p = proxy()
    before = p.rss()
    clients = [Client(p.address) for _ in range(300)]
    time.sleep(0.3)
    assert (p.rss() - before) / 300 < 20_000
    for c in clients:
        c.close()


def test_client_connections_limit_makes_others_wait(proxy, origin):
    u = origin(reply(200, b"x"))
    p = proxy(limits={"client_connections": 2})
    a, b = p.client(), p.client()
    assert a.get(u.url()).status == 200 and b.get(u.url()).status == 200
    c = p.client()
    c.request("GET", u.url())
    assert c.silent(0.2), "waits in the accept queue"
    a.close()
    with took(0, 0.5):
        assert c.response().body == b"x"
    b.close()
    c.close()


def test_replay_memory_is_given_back(proxy, origin):
    u = origin(reply(503), reply(200))
    p = proxy()
    with p.no_leak():
        for _ in range(5):
            p.fetch("PUT", u.url(), body=b"x" * 1_000_000)
    assert p.metric("evenkeel_buffered_bytes") == 0


def test_descriptors_run_out_without_harm(proxy, origin):
    import resource
    u = origin(reply(200, b"x"))
    p = proxy()
    n = p.fds() + 20
    resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (n, n))
    clients = [Client(p.address) for _ in range(60)]
    time.sleep(0.2)
    for c in clients:
        c.close()
    time.sleep(0.1)
    with took(0, 1):
        assert p.get(u.url()).body == b"x"


def test_large_bodies_leave_descriptors_for_others(proxy, origin):
    """Each could have a pipe as well: with one each, nothing would be left for a fifth client."""
    import resource

    def large(x):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 300000)
        x.hold()
    u, other = origin(large), origin(reply(200, b"x"))
    p = proxy()
    n = p.fds() + 4 * 4
    resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (n, n))
    clients = [p.client() for _ in range(4)]
    for c in clients:
        c.request("GET", u.url())
        assert c.exactly(300000, None)
    with took(0, 1):
        assert p.get(other.url()).body == b"x"
    for c in clients:
        c.close()


def test_busy_loop_does_not_spin(proxy, origin):
    u = origin(hold())
    p = proxy()
    with p.client() as c, p.client() as d:
        c.request("GET", u.url())
        u.wait(n=1)
        d.send("GET http")

        def cpu():
            with open(f"/proc/{p.pid}/stat", encoding="ascii") as stream:
                fields = stream.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
        before = cpu()
        time.sleep(0.5)
        assert cpu() - before <= 5, "50 ms of CPU in half a second of nothing"


def test_fifty_uploads_at_once(proxy, origin):
    u = origin(lambda x: x.reply(200, b"%d" % len(x.request.body)))
    p = proxy()
    faults = []

    def work():
        try:
            assert p.fetch("PUT", u.url(), body=b"u" * 500_000).body == b"500000"
        except Exception as fault:  # noqa: BLE001
            faults.append(fault)
    with p.no_leak():
        threads = [threading.Thread(target=work) for _ in range(50)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert faults == []
