"""Where a request or a tunnel may go: ports of CONNECT, and denied addresses in every spelling."""
import threading
import time

import pytest

from harness import Origin, free_port, problem, reply, took

OPEN = {"connect_ports": "any"}


def ask(p, way, authority):
    """An answer to GET or CONNECT of that authority."""
    target = f"http://{authority}/" if way == "GET" else authority
    with p.client() as c:
        c.send(f"{way} {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response(way)
        assert way == "GET" or r.status == 200 or c.closed()
        return r


# --- denied addresses

ALL_127_0_0_1 = ["127.0.0.1", "127.0.0.1.", "127.255.255.254", "localhost", "LocalHost.", "0.0.0.0", "[::]", "[::1]", "[0:0:0:0:0:0:0:1]",
                 # IPv4 inside IPv6: mapped, compatible, translated, NAT64 (both prefixes), 6to4
                 "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]",
                 "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]",
                 # decimal, octal, hexadecimal, with parts missing
                 "2130706433", "0x7f000001", "0X7F000001", "017700000001", "0177.0.0.1", "0x7f.0.0.1", "0x7f.1", "127.1", "127.0.1", "0",
                 "00000177.0x0.0.01", "127.0.0.0x1"]


@pytest.mark.parametrize("way", ["GET", "CONNECT"])
def test_denied_in_every_spelling(proxy, origin, way):
    u = origin(reply(200), host="0.0.0.0")
    p = proxy(egress={**OPEN, "deny_addresses": ["127.0.0.0/8", "::1/128"]})
    for spelling in ALL_127_0_0_1:
        with took(0, 0.3):
            r = ask(p, way, f"{spelling}:{u.port}")
        problem(r, 403, "destination_ip_prohibited", attempts=1)
    assert u.k == 0 and p.metric("evenkeel_retries_total") == 0


@pytest.mark.parametrize("way", ["GET", "CONNECT"])
def test_what_is_no_address_at_all(proxy, origin, way):
    """Encoded, or in the digits of other scripts: refused before anything is looked up."""
    u = origin(reply(200), host="0.0.0.0")
    p = proxy(egress={**OPEN, "deny_addresses": ["127.0.0.0/8"]})
    for spelling in ("%31%32%37.0.0.1", "127\u3002" .encode().decode("latin-1") + "0.0.1", "\u2460".encode().decode("latin-1") + "27.0.0.1",
                     "[127.0.0.1]", "[::ffff:127.0.0.1", "127.0.0.1%00", "127.0.0.1\\", "[::1%25lo]", "[::ffff:127.0.0.1%1]"):
        problem(ask(p, way, f"{spelling}:{u.port}"), 400, "http_request_error")
    assert u.k == 0


def test_old_spellings_are_taken_for_no_address(proxy, origin):
    """Not denied, and yet not dialled: nobody gets round a rule for a host by another way to write it."""
    u = origin(reply(200))
    p = proxy()
    for spelling in ("2130706433", "0x7f.1", "0177.0.0.1", "127.1"):
        problem(ask(p, "GET", f"{spelling}:{u.port}"), 502, "dns_error")
    assert u.k == 0


def test_cloud_metadata_is_denied_unasked(proxy):
    p = proxy(builtin=True)
    for spelling in ("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
                     "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1]", "[FD00:EC2::254]"):
        problem(ask(p, "GET", spelling), 403, "destination_ip_prohibited")
        problem(ask(p, "CONNECT", spelling + ":443"), 403, "destination_ip_prohibited")


@pytest.mark.parametrize("records", [{"A": ["127.0.0.5"]}, {"AAAA": ["::ffff:7f00:5"]}, {"AAAA": ["64:ff9b::7f00:5"]}, {"AAAA": ["::1"]},
                                     {"A": ["127.0.0.5"], "AAAA": ["::1"]}, {"A": ["0.0.0.0"]}])
def test_names_that_resolve_to_a_denied_address(proxy, dns, origin, records):
    u = origin(reply(200), host="0.0.0.0")
    d = dns({"inside.test": records})
    p = proxy(dns=d.policy, egress={**OPEN, "deny_addresses": ["127.0.0.0/8", "::1/128"]})
    for way in ("GET", "CONNECT"):
        problem(ask(p, way, f"inside.test:{u.port}"), 403, "destination_ip_prohibited", attempts=1)
    assert u.k == 0


def test_an_allowed_address_beside_a_denied_one_is_taken(proxy, dns, origin):
    u = origin(reply(200, b"allowed"), host="127.0.0.3")
    d = dns({"both.test": {"A": ["127.0.0.2", "127.0.0.3"]}})
    p = proxy(dns=d.policy, egress={"deny_addresses": ["127.0.0.2/32"]})
    assert ask(p, "GET", f"both.test:{u.port}").body == b"allowed"


def test_rebinding_name_is_judged_at_each_connection(proxy, dns, origin):
    """First an allowed address, then a denied one: what counts is the address that would be dialled."""
    port = free_port()
    a, b = origin(reply(200, b"a", [("Connection", "close")]), host="127.0.0.2", port=port), origin(reply(200), host="127.0.0.3", port=port)
    d = dns({"re.test": lambda kind, n: {"A": ["127.0.0.2" if n == 1 else "127.0.0.3"], "ttl": 0} if kind == "A" else {"ttl": 0}})
    p = proxy(dns=d.policy, egress={"deny_addresses": ["127.0.0.3/32"]})
    assert ask(p, "GET", f"re.test:{port}").body == b"a"
    time.sleep(1.1)
    problem(ask(p, "GET", f"re.test:{port}"), 403, "destination_ip_prohibited")
    assert b.k == 0


def test_denied_inside_a_tunnel_that_speaks_http(proxy, origin):
    u = origin(reply(200))
    p = proxy(egress={"deny_addresses": ["127.0.0.0/8"]})
    with p.client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        if r.status == 200:
            r = c.fetch("GET", "/", host=u.authority)
        problem(r, 403, "destination_ip_prohibited")
    assert u.k == 0


# --- ports of CONNECT

@pytest.mark.parametrize("egress,upstreams,is_open", [
    ({"connect_ports": "any"}, [], True),
    ({"connect_ports": [443, "{port}"]}, [], True),
    ({"connect_ports": [443]}, [{"name": "n", "match": {"hosts": ["127.0.0.1"], "ports": ["{port}"]}}], True),
    ({"connect_ports": [443]}, [{"name": "n", "match": {"hosts": ["127.0.0.1"]}}], False),
    ({"connect_ports": [443]}, [{"name": "n", "match": {"hosts": ["other.example"], "ports": ["{port}"]}}], False),
    ({"connect_ports": []}, [], False),
    ({}, [], False)])
def test_ports_that_connect_may_name(proxy, origin, egress, upstreams, is_open):
    u = origin(on_connection=lambda conn: (conn.send(b"hello"), conn.hold()))

    def fill(value):
        if isinstance(value, dict):
            return {k: fill(v) for k, v in value.items()}
        return [fill(v) for v in value] if isinstance(value, list) else u.port if value == "{port}" else value
    p = proxy(egress={**fill(egress), "tunnel_http": "off"}, upstreams=fill(upstreams))
    with p.client() as c:
        c.send(f"CONNECT {u.authority} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        if is_open:
            assert r.status == 200 and c.exactly(5, r) == b"hello"
        else:
            problem(r, 403, "http_request_denied")
            assert c.closed() and u.k == 0


def test_host_that_is_denied_is_so_for_every_port(proxy, origin):
    u = origin(reply(200))
    p = proxy(unmatched="deny", egress=OPEN, upstreams=[{"name": "n", "match": {"hosts": ["other.example"]}}])
    for way in ("GET", "CONNECT"):
        problem(ask(p, way, u.authority), 403, "http_request_denied")
    p = proxy(unmatched="deny", upstreams=[{"name": "n", "match": {"hosts": ["other.example"]}}])
    problem(ask(p, "CONNECT", u.authority), 403, "http_request_denied")  # also where it would have to speak HTTP
    assert u.k == 0


# --- dialling before the 200

def serve_hello(conn):
    conn.send(b"hello")
    conn.hold()


def test_connect_tries_all_addresses(proxy, dns, origin):
    u = origin(on_connection=serve_hello, host="127.0.0.4")
    d = dns({"many.test": {"AAAA": ["::1"], "A": ["127.0.0.2", "127.0.0.3", "127.0.0.4"]}})
    p = proxy(dns=d.policy, egress=OPEN, defaults={"retry": {"max_attempts": 1}})
    with p.client() as c, took(0, 0.8):
        c.send(f"CONNECT many.test:{u.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        assert r.status == 200 and r.attempts == 1 and c.exactly(5, r) == b"hello"


def test_connect_does_not_wait_for_a_silent_address(proxy, dns, origin):
    u = origin(on_connection=serve_hello)
    d = dns({"dual.test": {"AAAA": ["100::1"], "A": ["127.0.0.1"]}})
    p = proxy(dns=d.policy, egress=OPEN, defaults={"timeouts": {"connect": "5s"}})
    with p.client() as c, took(0, 0.6):
        c.send(f"CONNECT dual.test:{u.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        assert r.status == 200 and c.exactly(5, r) == b"hello"


def test_connect_is_retried_on_dns_failure(proxy, dns, origin):
    u = origin(on_connection=serve_hello)
    d = dns({"flaky.test": lambda kind, n: "servfail" if n <= 3 else {"A": ["127.0.0.1"]} if kind == "A" else {}})
    p = proxy(dns={**d.policy, "negative_ttl": "10ms"}, egress=OPEN, defaults={"retry": {"max_attempts": 5}})
    with p.client() as c:
        c.send(f"CONNECT flaky.test:{u.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("CONNECT").status == 200


def test_connect_is_retried_until_the_port_opens_and_never_after_the_200(proxy, makers):
    port = free_port()
    box, established = [], threading.Event()

    def open_late():  # a reset before the proxy has looked is still a failed connect
        box.append(makers.add(Origin(on_connection=lambda conn: (established.wait(5), conn.reset()), port=port)))
    timer = threading.Timer(0.15, open_late)
    timer.start()
    p = proxy(egress=OPEN, defaults={"retry": {"max_attempts": 8, "backoff": {"base": "60ms", "max": "60ms"}}})
    with p.client() as c:
        c.send(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n")
        r = c.response("CONNECT")
        timer.join()
        assert r.status == 200 and r.attempts >= 2
        established.set()
        assert c.closed(1)
    time.sleep(0.15)
    assert box[0].k == 1, "a tunnel that breaks isn't dialled again"


def test_limits_of_dialling_hold_for_connect(proxy, blackhole):
    p = proxy(egress=OPEN, defaults={"timeouts": {"connect": "150ms"}, "retry": {"max_attempts": 2, "backoff": {"base": "10ms"}}})
    with p.client() as c, took(0.3, 0.45):
        c.send(f"CONNECT 127.0.0.1:{blackhole.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        problem(c.response("CONNECT"), 504, "connection_timeout", attempts=2)
        assert c.closed()
    p = proxy(egress=OPEN, defaults={"timeouts": {"connect": "5s", "total": "200ms"}})
    with p.client() as c, took(0.2, 0.25):
        c.send(f"CONNECT 127.0.0.1:{blackhole.port} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert c.response("CONNECT").status == 504 and c.closed()
