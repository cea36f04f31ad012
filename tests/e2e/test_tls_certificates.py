"""Who may answer for a name: nginx and openssl s_server with all kinds of certificates, and what is said of the bad ones.

The words are asserted as they stand in the header, in the body and in the access line.
"""
import base64
import hashlib
import subprocess

import pytest

from harness import Authority, DNSStub, Nginx, free_port, problem, reply, run_evenkeel, stamp


def policy(u, ca, hosts=("localhost", "127.0.0.1", "*.wild.test", "wild.test"), **tls):
    return {"upstreams": [{"name": "t", "match": {"hosts": list(hosts)}, "port": u.tls_port,
                           "tls": {"originate": "on", "ca_file": ca, **tls}}]}


@pytest.fixture(params=["nginx", "s_server"])
def serve(request, makers, s_server, tmp_path_factory):
    """serve(pair): a server with this certificate; .tls_port, and .peer as errors name it."""
    def start(pair, chain=None):
        if request.param == "s_server":
            u = s_server(pair, "-www", *(["-cert_chain", chain] if chain else []))
            u.tls_port = u.port
        else:
            port, pem = free_port(), pair[0]
            if chain:
                pem += ".chain"
                with open(pem, "wb") as out:
                    for name in (pair[0], chain):
                        with open(name, "rb") as part:
                            out.write(part.read())
            u = makers.add(Nginx(tmp_path_factory.mktemp("nginx"),
                                 f"listen 127.0.0.1:{port} ssl; ssl_certificate {pem}; ssl_certificate_key {pair[1]};"))
            u.tls_port = port
        u.peer = f"127.0.0.1:{u.tls_port}"
        return u
    return start


def is_served(p, host="localhost"):
    r = p.get(f"http://{host}/ok")
    assert r.status == 200, r
    assert r.body == b"ok\n" or b"s_server" in r.body, r.body
    assert p.access()["status"] == 200


def is_refused(p, words, host="localhost", error="tls_certificate_error", status=502, attempts=1):
    """For a POST too: no byte of it has left, and yet nothing is tried again."""
    r = p.fetch("POST", f"http://{host}/ok", body=b"x")
    body = problem(r, status, error, verdict="not_listed" if attempts == 1 else "attempts", attempts=attempts, upstream="t")
    assert words in body["detail"], body["detail"]
    assert words in r.header("Proxy-Status"), r.header("Proxy-Status")
    assert p.access()["error"] == error and p.metric("evenkeel_retries_total") == attempts - 1
    assert p.metric("evenkeel_attempts_total", outcome="tls_failure") == attempts
    assert p.metric("evenkeel_tls_handshakes_total") == 0
    return body["detail"]


def test_good(proxy, serve, authority):
    is_served(proxy(**policy(serve(authority.certificate("localhost")), authority.ca)))


def test_expired(proxy, serve, authority):
    u = serve(authority.certificate("expired", starts=-9, days=-3))
    detail = is_refused(proxy(**policy(u, authority.ca)), "expired since ")
    assert detail.split("expired since ")[1][:20] in [stamp(-3 - s / 86400)[1] for s in range(60)]


def test_not_yet_valid(proxy, serve, authority):
    u = serve(authority.certificate("early", starts=3, days=9))
    detail = is_refused(proxy(**policy(u, authority.ca)), "not valid before ")
    assert detail.split("not valid before ")[1][:20] in [stamp(3 - s / 86400)[1] for s in range(60)]


def test_wrong_name(proxy, serve, authority):
    u = serve(authority.certificate("other", ("DNS:other.test", "DNS:*.more.test", "IP:10.1.2.3", "email:a@b.test")))
    is_refused(proxy(**policy(u, authority.ca)),
               "name mismatch: wanted localhost, certificate is for other.test, *.more.test, 10.1.2.3")


def test_the_common_name_is_no_name(proxy, serve, authority):
    """RFC 9525 2: only subjectAltName counts."""
    u = serve(authority.certificate("localhost", ()))
    is_refused(proxy(**policy(u, authority.ca)),
               "name mismatch: wanted localhost, certificate is for nothing (no subjectAltName)")


def test_server_name_is_what_is_checked(proxy, serve, authority):
    u = serve(authority.certificate("other", ("DNS:other.test", "DNS:*.more.test", "IP:10.1.2.3", "email:a@b.test")))
    is_served(proxy(**policy(u, authority.ca, server_name="x.more.test")))
    is_refused(proxy(**policy(u, authority.ca, server_name="y.test")),
               "name mismatch: wanted y.test, certificate is for other.test, *.more.test, 10.1.2.3")


@pytest.mark.parametrize("host,fits", [("a.wild.test", True), ("A.WILD.test", True), ("wild.test", False), ("a.b.wild.test", False)])
def test_wildcard(proxy, serve, authority, makers, host, fits):
    """One label, neither none nor two (RFC 9525 6.3)."""
    u = serve(authority.certificate("wild", ("DNS:*.wild.test",)))
    stub = makers.add(DNSStub({name: {"A": ["127.0.0.1"]} for name in ("a.wild.test", "wild.test", "a.b.wild.test")}))
    p = proxy(dns=stub.policy, **policy(u, authority.ca))
    if fits:
        is_served(p, host)
    else:
        is_refused(p, f"name mismatch: wanted {host}, certificate is for *.wild.test", host)


def test_partial_wildcards_do_not_count(proxy, serve, authority, makers):
    u = serve(authority.certificate("partial", ("DNS:a*.wild.test",)))
    stub = makers.add(DNSStub({"ab.wild.test": {"A": ["127.0.0.1"]}}))
    is_refused(proxy(dns=stub.policy, **policy(u, authority.ca)),
               "name mismatch: wanted ab.wild.test, certificate is for a*.wild.test", "ab.wild.test")


def test_ip_address(proxy, serve, authority):
    is_served(proxy(**policy(serve(authority.certificate("ip", ("IP:127.0.0.1",))), authority.ca)), "127.0.0.1")


def test_other_ip_address(proxy, serve, authority):
    u = serve(authority.certificate("ips", ("IP:127.0.0.2", "IP:::1", "DNS:127.0.0.1")))
    is_refused(proxy(**policy(u, authority.ca)),
               "name mismatch: wanted 127.0.0.1, certificate is for 127.0.0.2, ::1, 127.0.0.1", "127.0.0.1")


def test_self_signed(proxy, serve, authority):
    pair = authority.self_signed("selfmade")
    u = serve(pair)
    is_refused(proxy(**policy(u, authority.ca)), "self-signed certificate CN=selfmade")
    is_served(proxy(**policy(u, pair[0])))


def test_unknown_authority(proxy, serve, authority, tmp_path):
    stranger = Authority(tmp_path / "stranger", "A stranger")
    u = serve(stranger.certificate("localhost"))
    is_refused(proxy(**policy(u, authority.ca)), "unknown issuer CN=A stranger (or the peer doesn't send its intermediate)")


def test_unknown_authority_that_is_sent_along(proxy, serve, authority, tmp_path):
    stranger = Authority(tmp_path / "stranger", "A stranger")
    u = serve(stranger.certificate("localhost"), chain=stranger.ca)
    is_refused(proxy(**policy(u, authority.ca)), "unknown issuer CN=A stranger (the peer sent it, but it isn't trusted)")


def test_names_cannot_break_out_of_the_message(proxy, s_server, authority, tmp_path):
    """What a stranger wrote into a certificate ends up in a header, in JSON and in the log, and stays text there."""
    evil = 'x"\r\nSet-Cookie: a=b\t\\\x01\u00e4'
    cert, key = tmp_path / "evil.pem", tmp_path / "evil.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-utf8",
                    "-subj", "/CN=" + evil.replace("\\", "\\\\"), "-keyout", key, "-out", cert], check=True, capture_output=True)
    u = s_server((cert, key), "-www")
    u.tls_port = u.port
    p = proxy(**policy(u, authority.ca))
    detail = is_refused(p, "self-signed certificate CN=x")
    assert "Set-Cookie: a=b" in detail and all(" " <= c <= "~" and c not in '"\\' for c in detail), detail
    assert p.get("http://localhost/ok").header("Set-Cookie") is None


def test_system_store(proxy, serve, authority):
    """What `ca_file: system` means, and that SSL_CERT_FILE is heeded."""
    u = serve(authority.certificate("localhost"))
    is_refused(proxy(**policy(u, "system")),
               "unknown issuer CN=Evenkeel test authority (or the peer doesn't send its intermediate)")
    is_served(proxy(env={"SSL_CERT_FILE": authority.ca}, **policy(u, "system")))


def test_intermediate(proxy, serve, authority, tmp_path):
    middle = Authority(tmp_path / "middle", "In between", authority)
    pair = middle.certificate("localhost")
    is_served(proxy(**policy(serve(pair, chain=middle.ca), authority.ca)))
    u = serve(pair)
    is_refused(proxy(**policy(u, authority.ca)), "unknown issuer CN=In between (or the peer doesn't send its intermediate)")
    is_served(proxy(**policy(u, middle.ca)))


def test_expired_intermediate(proxy, serve, authority, tmp_path):
    middle = Authority(tmp_path / "middle", "In between", authority)
    pair = middle.certificate("localhost")
    authority.sign(middle.ca + ".csr", middle.ca, "basicConstraints=critical,CA:TRUE\n", -9, -3)
    is_refused(proxy(**policy(serve(pair, chain=middle.ca), authority.ca)), "issuer CN=In between expired since ")


def test_not_for_servers(proxy, serve, authority):
    u = serve(authority.certificate("client-only", client=True))
    is_refused(proxy(**policy(u, authority.ca)), "unsuitable certificate purpose")


def test_revoked(proxy, serve, authority, tmp_path):
    """A list of revocations in ca_file is heeded."""
    root = Authority(tmp_path / "root", "Revoking")
    pair = root.certificate("localhost")
    conf = tmp_path / "root" / "conf"
    for arguments in (["-revoke", pair[0]], ["-gencrl", "-crldays", "2", "-out", tmp_path / "crl.pem"]):
        subprocess.run(["openssl", "ca", "-config", conf, "-cert", root.ca, "-keyfile", root.key, "-md", "sha256", *arguments],
                       check=True, capture_output=True)
    with open(root.ca, encoding="ascii") as ca, open(tmp_path / "crl.pem", encoding="ascii") as crl:
        (tmp_path / "both.pem").write_text(ca.read() + crl.read())
    u = serve(pair)
    is_served(proxy(**policy(u, root.ca)))
    is_refused(proxy(**policy(u, str(tmp_path / "both.pem"))), "revoked")


def test_a_certificate_is_tried_again_when_listed(proxy, serve, authority):
    u = serve(authority.self_signed("selfmade"))
    p = proxy(defaults={"retry": {"on": ["tls_failure"], "max_attempts": 3}}, **policy(u, authority.ca))
    is_refused(p, "self-signed certificate CN=selfmade", attempts=3)
    assert p.metric("evenkeel_retries_total", reason="tls_failure") == 2


def pin(certificate):
    spki = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=spki, check=True, capture_output=True).stdout
    return "sha256/" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def test_pins(proxy, serve, authority):
    pair = authority.certificate("localhost")
    u = serve(pair)
    other = "sha256/" + base64.b64encode(bytes(32)).decode()
    is_served(proxy(**policy(u, authority.ca, pins=[other, pin(pair[0])])))
    is_served(proxy(**policy(u, authority.ca, pins=[pin(authority.ca)])))
    words = f"pin mismatch: none of tls.pins is in the chain; the certificate's own is {pin(pair[0])}"
    is_refused(proxy(**policy(u, authority.ca, pins=[other])), words)
    # Without a chain that was checked only the server's own key counts: it alone is proved.
    is_served(proxy(**policy(u, authority.ca, verify="off", pins=[pin(pair[0])])))
    is_refused(proxy(**policy(u, authority.ca, verify="off", pins=[pin(authority.ca)])), words)


# --- verification switched off

def test_verify_off(proxy, serve, authority, tmp_path):
    """Anything goes; check warns of it, and each start and reload says it again."""
    u = serve(authority.self_signed("selfmade", ("DNS:other.test",)))
    p = proxy(**policy(u, authority.ca, verify="off"))
    is_served(p)
    words = "tls.verify: off: anyone on the way can answer for upstream \"t\""
    line = p.wait_log("policy_warning")
    assert (line["level"], line["message"], line["file"]) == ("warn", words, p.file)
    assert p.lines.index(line) < p.lines.index(p.logs("listening")[0])
    p.hup()
    assert p.wait_log("policy_warning", 2)["message"] == words
    done = run_evenkeel("check", p.file)
    assert done.returncode == 0 and words in done.stdout
    with open(p.file, encoding="utf-8") as stream:
        number = 1 + [i for i, text in enumerate(stream) if "verify:" in text][0]
    assert f"{p.file}:{number}:" in done.stdout and line["line"] == number


def test_verify_on_says_nothing(proxy, serve, authority):
    u = serve(authority.certificate("localhost"))
    p = proxy(**policy(u, authority.ca))
    assert run_evenkeel("check", p.file).stdout.count("tls") == 0 and not p.logs("policy_warning")


# --- files that are no good

def test_bad_files_are_named_before_anything_runs(tmp_path, authority):
    pair, other = authority.certificate("client", (), client=True), authority.certificate("localhost")
    empty, locked, missing = tmp_path / "empty.pem", tmp_path / "locked.key", tmp_path / "missing.pem"
    empty.write_text("nothing\n")
    subprocess.run(["openssl", "ec", "-in", pair[1], "-aes128", "-passout", "pass:geheim", "-out", locked], check=True, capture_output=True)
    for tls, words in (
            ({"ca_file": missing}, f"tls.ca_file: {missing}: No such file or directory"),
            ({"ca_file": empty}, f"tls.ca_file: {empty}: no PEM certificate is in it"),
            ({"ca_file": tmp_path}, f"tls.ca_file: {tmp_path}: Is a directory"),
            ({"client_cert": empty, "client_key": pair[1]}, f"tls.client_cert: {empty}: no PEM certificate is in it"),
            ({"client_cert": pair[0], "client_key": empty}, f"tls.client_key: {empty}: no PEM private key is in it"),
            ({"client_cert": pair[0], "client_key": other[1]}, f"tls.client_key: {other[1]}: it doesn't belong to tls.client_cert {pair[0]}"),
            ({"client_cert": pair[0], "client_key": locked},
             f"tls.client_key: {locked}: it is encrypted, and nobody is there to give the passphrase"),
    ):
        file = tmp_path / "policy.yaml"
        inner = ", ".join(f"{key}: {value}" for key, value in tls.items())
        file.write_text("upstreams:\n  - name: a\n    match: {hosts: [a.test]}\n    tls: {originate: on, " + inner + "}\n")
        for command in (["check", file], ["run", "-c", file]):
            done = run_evenkeel(*command)
            assert done.returncode == 1, (words, done)
            assert words in done.stdout + done.stderr, (words, done)
            assert f"{file}:4:" in done.stdout + done.stderr


# --- ours

def test_client_certificate_demanded(proxy, origin, authority):
    pair = authority.certificate("client", (), client=True)
    u = origin(reply(200, b"mutual"), tls=authority.server(client_ca=True))
    u.tls_port = u.port
    p = proxy(**policy(u, authority.ca, client_cert=pair[0], client_key=pair[1]))
    assert p.get("http://localhost/").body == b"mutual"


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.parametrize("method,key", [("GET", ()), ("POST", ()), ("POST", [("Idempotency-Key", "k")])])
def test_client_certificate_withheld(proxy, s_server, authority, version, method, key):
    """A refusal, and no broken connection: in TLS 1.3 it comes after our side of the handshake, when the request is on its way."""
    u = s_server(authority.certificate("localhost"), "-www", "-Verify", "1", "-CAfile", authority.ca, version)
    u.tls_port = u.port
    p = proxy(**policy(u, authority.ca))
    with p.no_leak():
        r = p.fetch(method, "http://localhost/", key, body=None if method == "GET" else b"x" * 100000)
        alert = "handshake failure" if version == "-tls1_2" else "certificate required"
        body = problem(r, 502, "tls_protocol_error", verdict="not_listed", attempts=1)
    words = f'TLS handshake with 127.0.0.1:{u.port}: the peer refused with alert "{alert}"'
    assert words in body["detail"], body["detail"]
    assert p.metric("evenkeel_attempts_total", outcome="tls_failure") == 1 and p.metric("evenkeel_retries_total") == 0


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_client_certificate_refused(proxy, s_server, authority, tmp_path, version):
    pair = Authority(tmp_path / "stranger", "A stranger").certificate("client", (), client=True)
    u = s_server(authority.certificate("localhost"), "-www", "-Verify", "1", "-verify_return_error", "-CAfile", authority.ca, version)
    u.tls_port = u.port
    p = proxy(**policy(u, authority.ca, client_cert=pair[0], client_key=pair[1]))
    detail = problem(p.get("http://localhost/"), 502, "tls_protocol_error", verdict="not_listed", attempts=1)["detail"]
    assert f'TLS handshake with 127.0.0.1:{u.port}: the peer refused with alert "unknown CA"' in detail


def test_client_certificate_and_nginx(proxy, nginx, authority, tmp_path):
    """nginx takes the handshake and answers by a status, which is passed on; it sees the certificate, and its chain."""
    middle = Authority(tmp_path / "middle", "In between", authority)
    pair = middle.certificate("client", (), client=True)
    chain = tmp_path / "chain.pem"
    with open(pair[0], encoding="ascii") as leaf, open(middle.ca, encoding="ascii") as ca:
        chain.write_text(leaf.read() + ca.read())
    port, server = free_port(), authority.certificate("localhost")
    u = nginx(server=f"""listen 127.0.0.1:{port} ssl; ssl_certificate {server[0]}; ssl_certificate_key {server[1]};
        ssl_client_certificate {authority.ca}; ssl_verify_client on; ssl_verify_depth 3;
        location = /who {{ return 200 "$ssl_client_s_dn of $ssl_client_i_dn, $ssl_client_verify"; }}""")
    u.tls_port = port
    r = proxy(**policy(u, authority.ca, client_cert=str(chain), client_key=pair[1])).get("http://localhost/who")
    assert r.body == b"CN=client of CN=In between, SUCCESS"
    for more in ({}, {"client_cert": pair[0], "client_key": pair[1]}):
        r = proxy(**policy(u, authority.ca, **more)).get("http://localhost/who")
        assert r.status == 400 and b"SSL certificate" in r.body and r.header("Proxy-Status") is None


def test_certificate_and_key_go_together(tmp_path, authority):
    pair = authority.certificate("client", (), client=True)
    file = tmp_path / "policy.yaml"
    for key, missing in (("client_cert", "client_key"), ("client_key", "client_cert")):
        file.write_text("upstreams:\n- name: a\n  match: {hosts: [a.test]}\n  tls: {originate: on, %s: %s}\n" % (key, pair[0]))
        done = run_evenkeel("check", file)
        assert done.returncode == 1 and f"tls: client_cert and client_key go together; {missing} is missing" in done.stdout
