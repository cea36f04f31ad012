"""Certificates and keys that change while the proxy runs: read again on SIGHUP and by `watch`, and nothing of the old ones is used on."""
import os
import shutil
import time

import pytest

from harness import Authority, free_port, problem, reply, until


def put(source, target):
    """As a renewal does it: a new file under the old name."""
    shutil.copyfile(source, f"{target}.new")
    os.replace(f"{target}.new", target)


def policy(port, **tls):
    return {"upstreams": [{"name": "t", "match": {"hosts": ["localhost"]}, "port": port, "tls": {"originate": "on", **tls}}]}


def asks_who(nginx, authority):
    """nginx that says whose certificate it was shown."""
    port, pair = free_port(), authority.certificate("localhost")
    u = nginx(server=f"""listen 127.0.0.1:{port} ssl; ssl_certificate {pair[0]}; ssl_certificate_key {pair[1]}; keepalive_timeout 60;
        ssl_protocols TLSv1.2 TLSv1.3; ssl_client_certificate {authority.ca}; ssl_verify_client optional;
        location = /who {{ return 200 "$ssl_client_s_dn $ssl_session_reused $connection"; }}""")
    u.tls_port = port
    return u


def who(p):
    r = p.get("http://localhost/who")
    assert r.status == 200, r
    name, reused, connection = r.text.split()
    return name, reused == "r", int(connection)


@pytest.fixture
def pairs(authority, tmp_path):
    """Two client certificates, and the files that the policy names; the first lies in them."""
    class Pairs:
        first, second = (authority.certificate(name, (), client=True) for name in ("one", "two"))
        cert, key = str(tmp_path / "client.pem"), str(tmp_path / "client.key")

        def use(self, pair):
            put(pair[0], self.cert)
            put(pair[1], self.key)
    made = Pairs()
    made.use(made.first)
    return made


def test_client_certificate_on_hup(proxy, nginx, authority, pairs):
    u = asks_who(nginx, authority)
    p = proxy(**policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key))
    name, resumed, first = who(p)
    assert (name, resumed) == ("CN=one", False) and who(p) == ("CN=one", resumed, first)
    pairs.use(pairs.second)
    assert who(p)[2] == first, "nothing is read before it is asked for"
    assert p.hup()["result"] == "ok"
    name, resumed, second = who(p)
    assert (name, resumed) == ("CN=two", False) and second != first, "neither the connection nor its session is used on"
    assert who(p)[2] == second
    until(lambda: p.metric("evenkeel_pool_connections", state="idle") == 1, 2, "the old connection's end")


def test_unchanged_files_disturb_nothing(proxy, nginx, authority, pairs):
    u = asks_who(nginx, authority)
    p = proxy(**policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key))
    before = who(p)
    pairs.use(pairs.first)  # new files with what the old ones held
    p.write({**policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key), "log": {"level": "debug"}})
    assert p.hup()["result"] == "ok" and who(p) == before


def test_a_key_that_does_not_belong_is_refused_and_the_old_pair_stays(proxy, nginx, authority, pairs):
    u = asks_who(nginx, authority)
    p = proxy(**policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key))
    before = who(p)
    put(pairs.second[1], pairs.key)
    line = p.hup()
    assert line["result"] == "failed" and f"tls.client_key: {pairs.key}: it doesn't belong to tls.client_cert {pairs.cert}" in line["message"]
    assert who(p) == before and p.metric("evenkeel_config_reloads_total", result="failure") == 1
    os.unlink(pairs.key)
    assert "No such file or directory" in p.hup()["message"] and who(p) == before


def test_files_that_went_after_the_start_are_not_needed(proxy, nginx, authority, pairs):
    """Read at the start, whether a request came by then or not."""
    u = asks_who(nginx, authority)
    p = proxy(**policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key))
    os.unlink(pairs.cert)
    os.unlink(pairs.key)
    assert who(p)[0] == "CN=one"


def test_changed_files_count_from_the_reload_on(proxy, nginx, authority, pairs):
    u = asks_who(nginx, authority)
    p = proxy(**policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key))
    pairs.use(pairs.second)
    assert who(p)[0] == "CN=one"
    p.hup()
    assert who(p)[0] == "CN=two"


def test_client_certificate_by_watch(proxy, nginx, authority, pairs):
    """Certificate first, key a moment later, as tools write them: whatever is made of the moment between, the end is right."""
    u = asks_who(nginx, authority)
    p = proxy(watch="on", **policy(u.tls_port, ca_file=authority.ca, client_cert=pairs.cert, client_key=pairs.key))
    assert who(p)[0] == "CN=one"
    put(pairs.second[0], pairs.cert)
    time.sleep(0.4)
    assert who(p)[0] == "CN=one"
    put(pairs.second[1], pairs.key)
    until(lambda: who(p)[0] == "CN=two", 3, "the new certificate")
    assert p.logs("reload", result="ok")


def test_certificates_behind_a_swapped_link_by_watch(proxy, nginx, authority, pairs, tmp_path):
    """As Kubernetes mounts a secret: ..data points to a folder, and is pointed to another."""
    u = asks_who(nginx, authority)
    mount = tmp_path / "mount"
    for version, pair in (("..1", pairs.first), ("..2", pairs.second)):
        (mount / version).mkdir(parents=True)
        shutil.copyfile(pair[0], mount / version / "tls.crt")
        shutil.copyfile(pair[1], mount / version / "tls.key")
    (mount / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (mount / name).symlink_to(f"..data/{name}")
    p = proxy(watch="on", **policy(u.tls_port, ca_file=authority.ca, client_cert=str(mount / "tls.crt"), client_key=str(mount / "tls.key")))
    assert who(p)[0] == "CN=one"
    (mount / "..data_tmp").symlink_to("..2")
    os.replace(mount / "..data_tmp", mount / "..data")
    until(lambda: who(p)[0] == "CN=two", 3, "the new certificate")


@pytest.mark.parametrize("how", ["hup", "watch"])
def test_authority_that_is_no_longer_trusted(proxy, origin, authority, tmp_path, how):
    """Neither an idle connection nor a session that was made under the old CA outlives it."""
    ca = str(tmp_path / "ca.pem")
    put(authority.ca, ca)
    u = origin(reply(200, b"x"), tls=authority.server())
    p = proxy(watch="on" if how == "watch" else "off", **policy(u.port, ca_file=ca))
    for _ in range(2):
        assert p.get("http://localhost/").body == b"x"
    assert u.k == 1
    put(Authority(tmp_path / "stranger", "A stranger").ca, ca)
    if how == "hup":
        p.hup()
    else:
        p.wait_log("reload", result="ok")
    u.connections[0].wait_ended(1)
    detail = problem(p.get("http://localhost/"), 502, "tls_certificate_error")["detail"]
    assert "unknown issuer CN=Evenkeel test authority" in detail and u.n == 2
    put(authority.ca, ca)
    if how == "hup":
        p.hup()
    until(lambda: p.get("http://localhost/").body == b"x", 3, "the old CA's return")


def test_system_authorities_that_changed(proxy, origin, authority, tmp_path):
    ca = str(tmp_path / "bundle.pem")
    put(authority.ca, ca)
    u = origin(reply(200, b"x"), tls=authority.server())
    p = proxy(env={"SSL_CERT_FILE": ca}, **policy(u.port))
    assert p.get("http://localhost/").body == b"x"
    p.hup()
    assert p.get("http://localhost/").body == b"x" and u.k == 1
    put(Authority(tmp_path / "stranger", "A stranger").ca, ca)
    p.hup()
    problem(p.get("http://localhost/"), 502, "tls_certificate_error")


@pytest.mark.parametrize("change", [{"server_name": "other.test"}, {"min_version": "1.3"}, {"verify": "off"},
                                    {"pins": ["sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}])
def test_changed_rules_want_connections_of_their_own(proxy, origin, authority, change):
    pair = ("both", ("DNS:localhost", "DNS:other.test"))
    u = origin(reply(200, b"x"), tls=authority.server(*pair))
    p = proxy(**policy(u.port, ca_file=authority.ca))
    assert p.get("http://localhost/").body == b"x"
    p.write(policy(u.port, ca_file=authority.ca, **change))
    p.hup()
    u.connections[0].wait_ended(1)
    r = p.get("http://localhost/")
    if "pins" in change:
        problem(r, 502, "tls_certificate_error")
    else:
        assert r.body == b"x" and u.k == 2 and p.metric("evenkeel_tls_handshakes_total", kind="full") == 2


def test_a_connection_in_use_finishes_and_is_not_kept(proxy, origin, authority, tmp_path):
    """A response that is under way when its CA goes is finished; its connection then serves nobody else."""
    ca = str(tmp_path / "ca.pem")
    put(authority.ca, ca)

    def slow(x):
        x.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        while not released:
            x.sleep(0.01)
        x.send(b"b")
    released = []
    u = origin(slow, reply(200, b"second"), tls=authority.server())
    p = proxy(defaults={"retry": {"hold_response": 0}}, **policy(u.port, ca_file=ca))
    with p.client() as c:
        c.request("GET", "http://localhost/")
        head = c.head()
        with open(ca, "ab") as stream:  # another identity that still trusts it
            stream.write(b"\n")
        p.hup()
        assert p.get("http://localhost/").body == b"second" and u.k == 2
        released.append(1)
        c.body(head)
        assert head.body == b"ab"
    u.connections[0].wait_ended(1)
    assert p.get("http://localhost/").body == b"second" and u.requests[-1].connection.k == 2
