"""TLS towards the origin: verification, names, failures."""
import pytest

from harness import Incomplete, problem, raw, reply


def upstream(u, authority, **tls):
    return {"upstreams": [{"name": "t", "match": {"hosts": ["127.0.0.1", "localhost"]},
                           "tls": {"originate": "on", "ca_file": authority.ca, **tls}}]}


def test_originate(proxy, origin, authority):
    u = origin(lambda x: x.reply(200, x.request.body), tls=authority.server())
    p = proxy(**upstream(u, authority))
    with p.client() as c:
        for i in range(3):
            r = c.fetch("PUT", u.url(f"/{i}", host="localhost"), body=b"secret" * 1000)
            assert r.status == 200 and r.body == b"secret" * 1000
    assert u.k == 1 and u.requests[0].header("Host") == f"localhost:{u.port}"


def test_https_in_absolute_form(proxy, origin, authority):
    u = origin(reply(200, b"tls"), tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"ca_file": authority.ca}}])
    r = p.fetch("GET", f"https://localhost:{u.port}/x", host=f"localhost:{u.port}")
    assert r.body == b"tls" and u.targets == ["/x"]


def test_retries_over_tls(proxy, origin, authority):
    u = origin(reply(503), reply(200, b"ok"), tls=authority.server())
    assert proxy(**upstream(u, authority)).get(u.url(host="localhost")).attempts == 2


def test_ip_address_in_the_certificate(proxy, origin, authority):
    u = origin(reply(200, b"ip"), tls=authority.server())
    assert proxy(**upstream(u, authority)).get(u.url()).body == b"ip"


def test_unknown_authority(proxy, origin, authority):
    u = origin(reply(200), tls=authority.server())
    p = proxy(upstreams=[{"name": "t", "match": {"hosts": ["localhost"]}, "tls": {"originate": "on"}}])
    r = p.get(u.url(host="localhost"))
    problem(r, 502, "tls_certificate_error", attempts=1)
    assert u.n == 0 and p.metric("evenkeel_retries_total") == 0


def test_wrong_name(proxy, origin, authority):
    u = origin(reply(200), tls=authority.server("other", ("DNS:other.example",)))
    problem(proxy(**upstream(u, authority)).get(u.url(host="localhost")), 502, "tls_certificate_error")
    assert proxy(**upstream(u, authority, server_name="other.example")).get(u.url(host="localhost")).status == 200


def test_verify_off(proxy, origin, authority):
    u = origin(reply(200), tls=authority.server("other", ("DNS:other.example",)))
    assert proxy(**upstream(u, authority, verify="off")).get(u.url(host="localhost")).status == 200


def test_clear_text_where_tls_is_expected(proxy, origin, authority):
    u = origin(on_connection=lambda conn: (conn.fill(), conn.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), conn.close()))
    problem(proxy(**upstream(u, authority), defaults={"retry": {"max_attempts": 1}}).get(u.url()), 502, "tls_protocol_error")


def test_closed_during_the_handshake_is_a_connect_failure(proxy, origin, authority):
    u = origin(on_connection=lambda conn: (conn.fill(), conn.close()))
    p = proxy(**upstream(u, authority))
    r = p.fetch("POST", u.url(), body=b"x")
    problem(r, 502, "connection_terminated", attempts=3)
    assert p.metric("evenkeel_retries_total", reason="connect_failure") == 2


# case C3, over TLS
def test_end_without_close_notify_is_no_end(proxy, origin, authority):
    u = origin(raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 100000, then="close"), tls=authority.server())
    with proxy(**upstream(u, authority)).client() as c, pytest.raises(Incomplete):
        c.get(u.url(host="localhost"))


def test_client_certificate(proxy, origin, authority):
    cert, key = authority.certificate("client", (), client=True)
    u = origin(reply(200, b"mutual"), tls=authority.server(client_ca=True))
    assert proxy(**upstream(u, authority, client_cert=cert, client_key=key)).get(u.url(host="localhost")).body == b"mutual"
    assert proxy(**upstream(u, authority)).get(u.url(host="localhost")).status == 502


def test_pins(proxy, origin, authority):
    import base64
    import hashlib
    import subprocess
    cert, _ = authority.certificate("localhost")
    spki = subprocess.run(["openssl", "x509", "-in", cert, "-pubkey", "-noout"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=spki, check=True, capture_output=True).stdout
    pin = "sha256/" + base64.b64encode(hashlib.sha256(der).digest()).decode()
    u = origin(reply(200), tls=authority.server())
    assert proxy(**upstream(u, authority, pins=[pin])).get(u.url(host="localhost")).status == 200
    wrong = "sha256/" + base64.b64encode(bytes(32)).decode()
    problem(proxy(**upstream(u, authority, pins=[wrong])).get(u.url(host="localhost")), 502, "tls_certificate_error")


def test_min_version(proxy, origin, authority):
    import ssl
    context = authority.server()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    u = origin(reply(200), tls=context)
    assert proxy(**upstream(u, authority)).get(u.url(host="localhost")).status == 200
    r = proxy(**upstream(u, authority, min_version="1.3")).get(u.url(host="localhost"))
    problem(r, 502, "tls_protocol_error")
