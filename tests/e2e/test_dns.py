"""Names: what is final, what is repeated, how long an answer counts, and which address is taken."""
import time

from harness import free_port, problem, reply, took, until


# case J1
def test_no_such_name_is_final(proxy, dns):
    d = dns({"gone.test": "nxdomain"})
    p = proxy(dns=d.policy)
    with took(0, 0.2):
        r = p.get("http://gone.test/")
    problem(r, 502, "dns_error", attempts=1, verdict="not_listed")
    assert p.metric("evenkeel_retries_total") == 0


def test_servfail_is_repeated(proxy, dns, origin):
    u = origin(reply(200, b"found"))
    d = dns({"flaky.test": lambda kind, n: "servfail" if n <= 1 else {"A": ["127.0.0.1"]} if kind == "A" else {}})
    p = proxy(dns={**d.policy, "negative_ttl": "10ms"}, defaults={"retry": {"backoff": {"base": "50ms", "max": "50ms"}}})
    r = p.get(u.url(host="flaky.test"))
    # The resolver may have asked again by itself, in which case one attempt was enough.
    assert r.status == 200 and r.body == b"found" and r.attempts in (1, 2)


def test_servfail_each_time(proxy, dns):
    d = dns({"bad.test": "servfail"})
    p = proxy(dns={**d.policy, "negative_ttl": "0s", "timeout": "500ms"})
    r = p.get("http://bad.test/")
    problem(r, 502, "dns_error", attempts=3, verdict="attempts")
    assert p.metric("evenkeel_retries_total", reason="dns_failure") == 2


def test_silent_name_server(proxy, dns):
    d = dns({"slow.test": "silent"})
    p = proxy(dns={**d.policy, "timeout": "300ms"}, defaults={"retry": {"max_attempts": 1}})
    with took(0.3, 0.45):
        r = p.get("http://slow.test/")
    problem(r, 504, "dns_timeout", attempts=1)


def test_resolving_is_inside_total(proxy, dns):
    d = dns({"slow.test": "silent"})
    p = proxy(dns={**d.policy, "timeout": "5s"}, defaults={"timeouts": {"total": "400ms"}})
    with took(0.4, 0.45):
        assert p.get("http://slow.test/").status == 504


def test_dns_failures_are_safe_for_post(proxy, dns):
    d = dns({"bad.test": "servfail"})
    p = proxy(dns={**d.policy, "negative_ttl": "0s"})
    problem(p.fetch("POST", "http://bad.test/", body=b"x"), 502, "dns_error", attempts=3)


# case J3
def test_ipv6_that_refuses_falls_to_ipv4_within_one_attempt(proxy, dns, origin):
    u = origin(reply(200, b"four"))
    d = dns({"dual.test": {"AAAA": ["::1"], "A": ["127.0.0.1"]}})
    p = proxy(dns=d.policy)
    with took(0, 0.4):
        r = p.get(u.url(host="dual.test"))
    assert (r.status, r.body, r.attempts) == (200, b"four", 1)
    assert u.requests[0].header("Host") == f"dual.test:{u.port}"


def test_ipv6_that_is_silent_falls_to_ipv4(proxy, dns, origin):
    u = origin(reply(200, b"four"))
    d = dns({"dual.test": {"AAAA": ["100::1"], "A": ["127.0.0.1"]}})
    p = proxy(dns=d.policy)
    with took(0, 0.6):
        assert p.get(u.url(host="dual.test")).body == b"four"


def test_second_address_when_the_first_refuses(proxy, dns, origin):
    u = origin(reply(200, b"second"), host="127.0.0.3")
    d = dns({"two.test": {"A": ["127.0.0.2", "127.0.0.3"]}})
    r = proxy(dns=d.policy).get(u.url(host="two.test"))
    assert (r.status, r.body, r.attempts) == (200, b"second", 1)


# case J5
def test_new_address_after_the_ttl(proxy, dns, origin):
    where = {"now": "127.0.0.2"}
    port = free_port()
    a, b = origin(reply(200, b"a"), host="127.0.0.2", port=port), origin(reply(200, b"b"), host="127.0.0.3", port=port)
    d = dns({"move.test": lambda kind, n: {"A": [where["now"]], "ttl": 1} if kind == "A" else {"ttl": 1}})
    p = proxy(dns=d.policy)
    url = f"http://move.test:{port}/"
    assert p.get(url).body == b"a"
    where["now"] = "127.0.0.3"
    assert p.get(url).body == b"a", "the answer counts for a second"
    time.sleep(1.2)
    until(lambda: p.get(url).body == b"b", 1, "the new address, although a pooled connection to the old one is there")
    a.connections[0].wait_ended(1)
    assert a.k == 1 and b.k >= 1


def test_answers_are_kept_for_their_ttl(proxy, dns, origin):
    u = origin(reply(200, headers=[("Connection", "close")]))
    d = dns({"keep.test": {"A": ["127.0.0.1"], "ttl": 60}})
    p = proxy(dns=d.policy)
    for _ in range(5):
        assert p.get(u.url(host="keep.test")).status == 200
    assert d.n("keep.test", "A") == 1


def test_max_ttl(proxy, dns, origin):
    u = origin(reply(200, headers=[("Connection", "close")]))
    d = dns({"keep.test": {"A": ["127.0.0.1"], "ttl": 3600}})
    p = proxy(dns={**d.policy, "max_ttl": "200ms"})
    p.get(u.url(host="keep.test"))
    time.sleep(0.3)
    p.get(u.url(host="keep.test"))
    assert d.n("keep.test", "A") >= 2


def test_many_requests_ask_once(proxy, dns, origin):
    u = origin(reply(200))
    d = dns({"one.test": lambda kind, n: time.sleep(0.1) or ({"A": ["127.0.0.1"]} if kind == "A" else {})})
    p = proxy(dns=d.policy)
    clients = [p.client() for _ in range(20)]
    for c in clients:
        c.request("GET", u.url(host="one.test"))
    assert [c.response().status for c in clients] == [200] * 20
    assert d.n("one.test", "A") <= 2
    for c in clients:
        c.close()


def test_denied_addresses_hold_for_resolved_names(proxy, dns):
    d = dns({"meta.test": {"A": ["169.254.169.254"]}})
    p = proxy(dns=d.policy)
    problem(p.get("http://meta.test/"), 403, "destination_ip_prohibited")


def test_mapped_addresses_do_not_get_round_deny(proxy, dns):
    d = dns({"meta.test": {"AAAA": ["::ffff:a9fe:a9fe"]}})
    p = proxy(dns=d.policy)
    r = p.get("http://meta.test/")
    assert r.status == 403
    r = p.get("http://[::ffff:169.254.169.254]/")
    assert r.status == 403


def test_localhost_is_resolved_without_a_name_server(proxy, origin):
    u = origin(reply(200, b"local"))
    assert proxy().get(u.url(host="localhost")).body == b"local"


def test_names_compare_without_case_and_final_dot(proxy, dns, origin):
    u = origin(reply(200))
    d = dns({"api.pay.test": {"A": ["127.0.0.1"]}})
    p = proxy(dns=d.policy, upstreams=[{"name": "pay", "match": {"hosts": ["*.pay.test"]}}])
    for host in ("api.pay.test", "API.Pay.Test", "api.pay.test."):
        r = p.get(u.url(host=host))
        assert r.status == 200 and r.header("Evenkeel-Upstream") == "pay", host
