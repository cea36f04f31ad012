"""One long mixed run for leak checkers: traffic, failures, cancels, reloads, tunnels, drain. Run by `make leak`."""
import random
import threading
import time

import pytest

from harness import Client, Incomplete, free_port, patience


def step(x):
    what = x.request.target
    if what.startswith("/503") and x.request.header("Evenkeel-Previous-Attempts") is None:
        x.reply(503, b"no" * 1000)
    elif what.startswith("/reset") and x.request.header("Evenkeel-Previous-Attempts") is None:
        x.reset()
    elif what.startswith("/cut"):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc")
        x.close()
    elif what.startswith("/bad"):
        x.send(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")
    elif what.startswith("/slow"):
        x.sleep(0.3)
        x.reply(200, b"slow")
    elif what.startswith("/chunked"):
        x.reply(200, chunked=[b"a" * 1000] * 20, trailers=[("X-T", "1")])
    else:
        x.reply(200, x.request.body)


@pytest.mark.limit(240)
def test_mixed_run(proxy, origin, authority):
    u = origin(step)
    secure = origin(step, tls=authority.server())
    policy = {
        "egress": {"connect_ports": "any"}, "drain": {"timeout": "5s"},
        "defaults": {"timeouts": {"total": "20s", "attempt": "10s"}, "retry": {"budget": "off"},
                     "breaker": {"consecutive": 1000, "min_requests": 1000, "failure_ratio": "99%", "window": "10s", "open_for": "1s"},
                     "hedge": {"after": "250ms", "max": 1}},
        "upstreams": [{"name": "s", "match": {"hosts": ["localhost"], "ports": [secure.port]},
                       "tls": {"originate": "on", "ca_file": authority.ca}}]}
    p = proxy(**policy)
    refused = f"http://127.0.0.1:{free_port()}/"
    faults = []
    end = time.monotonic() + 6

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < end and not faults:
            try:
                with Client(p.address, timeout=30) as c:
                    for _ in range(rng.randint(1, 5)):
                        kind = rng.choice(["ok", "503", "reset", "cut", "bad", "slow", "chunked", "put", "big", "leave", "tunnel", "refused",
                                           "broken", "tls", "noname", "chunkput"])
                        if kind in ("ok", "503", "reset", "cut", "bad", "slow", "chunked"):
                            c.get(u.url("/" + kind))
                        elif kind == "put":
                            assert c.fetch("PUT", u.url("/503put"), body=b"p" * 5000).body == b"p" * 5000
                        elif kind == "chunkput":
                            assert c.request("PUT", u.url("/x"), chunked=[b"q" * 100] * 10).response().body == b"q" * 1000
                        elif kind == "big":
                            assert len(c.fetch("POST", u.url("/big"), body=b"b" * 1_500_000).body) == 1_500_000
                        elif kind == "leave":
                            c.request("GET", u.url("/slow"))
                            time.sleep(rng.random() * 0.05)
                            c.reset() if rng.random() < 0.5 else c.close()
                            break
                        elif kind == "tunnel":
                            c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
                            assert c.response("CONNECT").status == 200
                            assert c.fetch("GET", "/in", host=u.authority).status == 200
                            break
                        elif kind == "refused":
                            assert c.get(refused).status == 502
                        elif kind == "noname":
                            assert c.get("http://name.invalid/").status in (502, 504)
                        elif kind == "tls":
                            assert c.fetch("PUT", secure.url("/503t", host="localhost"), body=b"s" * 3000).body == b"s" * 3000
                        elif kind == "broken":
                            c.send("GET bad HTTP/1.1\r\nHost: x\r\n\r\n")
                            assert c.response().status == 400
                            break
            except (Incomplete, ConnectionError):
                continue
            except Exception as fault:  # noqa: BLE001
                faults.append(fault)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    n = 0
    while time.monotonic() < end:
        time.sleep(0.5)
        n += 1
        p.write({**policy, "defaults": {**policy["defaults"], "pool": {"max_connections": 8 + n}}})
        p.hup()
        for path in ("/metrics", "/upstreams", "/config", "/advice", "/", "/explain?url=http://a.test/", "/nope"):
            p.ask(path)
        p.write(text="broken: [\n")
        p.hup()
    for t in threads:
        t.join(patience(40))
    assert faults == []
    # stop in the middle of something
    late = [p.client() for _ in range(5)]
    for c in late:
        c.request("GET", u.url("/slow"))
    u.wait(n=1)
    p.term()
    for c in late:
        try:
            c.response()
        except (Incomplete, ConnectionError):
            pass
    assert p.wait_exit(30) == 0
