"""`evenkeel init`: a policy file to start from, with and without a look at the environment."""
import os
import re
import subprocess

import pytest
import yaml

from harness import run_evenkeel
from harness.proxy import BIN, WRAP



def init(tmp_path, *arguments, **variables):
    """The file that it writes, held to what `check` says of it."""
    done = run_evenkeel("init", *arguments, env=variables)
    assert done.returncode == 0 and done.stderr == "", done
    file = tmp_path / "policy.yaml"
    file.write_text(done.stdout, encoding="utf-8")
    checked = run_evenkeel("check", file)
    assert checked.returncode == 0 and "warning" not in checked.stdout, checked.stdout
    return done.stdout


@pytest.fixture(autouse=True)
def no_urls(monkeypatch):
    """The tests' own environment must not bring upstreams in."""
    for name in list(os.environ):
        if re.search(r"_(URL|URI|ENDPOINT)$", name):
            monkeypatch.delenv(name)


def upstreams(text):
    return {entry["name"]: entry for entry in yaml.safe_load(text)["upstreams"]}


def test_plain_starter_is_good_and_small(tmp_path):
    text = init(tmp_path)
    policy = yaml.safe_load(text)
    assert policy["upstreams"] == [] and policy["listen"] == "127.0.0.1:3128"
    assert len(text.splitlines()) < 40 and "#" in text


def test_its_commented_example_is_good_too(tmp_path):
    text = init(tmp_path)
    head, example = text.split("upstreams: []")
    lines = example.splitlines()[1:]
    assert lines and all(line.startswith("# ") for line in lines)
    file = tmp_path / "uncommented.yaml"
    file.write_text(head + "upstreams:\n" + "\n".join(line[2:] for line in lines) + "\n", encoding="utf-8")
    checked = run_evenkeel("check", file)
    assert checked.returncode == 0, checked.stdout
    done = run_evenkeel("explain", "-c", file, "POST", "http://api.payments.example/v1/charges")
    assert "upstream: payments\n" in done.stdout and "route: routes[0]\n" in done.stdout


def test_plain_starter_does_not_look_at_the_environment(tmp_path):
    assert init(tmp_path, PAYMENTS_URL="http://pay.test/") == init(tmp_path)


def test_upstreams_from_the_environment(tmp_path):
    text = init(tmp_path, "--from-env", PAYMENTS_API_URL="http://api.pay.test/v1", SEARCH_URI="http://Search.test.",
                BLOB_ENDPOINT="http://127.0.0.1:9000", USERS_BASE_URL="http://users.test:8080")
    assert upstreams(text) == {
        "blob": {"name": "blob", "match": {"hosts": ["127.0.0.1"]}},
        "payments-api": {"name": "payments-api", "match": {"hosts": ["api.pay.test"]}},
        "search": {"name": "search", "match": {"hosts": ["search.test"]}},
        "users": {"name": "users", "match": {"hosts": ["users.test"]}},
    }
    assert list(upstreams(text)) == ["blob", "payments-api", "search", "users"]
    assert "originate" not in text


def test_order_is_that_of_the_names_whatever_the_environment_s(tmp_path):
    names = ["C_URL", "A_URL", "B_URL", "AA_URL", "A_B_URL"]
    first = init(tmp_path, "--from-env", **{name: f"http://{name.lower().replace('_', '')}.test" for name in names})
    second = init(tmp_path, "--from-env", **{name: f"http://{name.lower().replace('_', '')}.test" for name in names[::-1]})
    assert first == second
    assert list(upstreams(first)) == ["aa", "a-b", "a", "b", "c"]


def test_one_entry_for_each_host(tmp_path):
    text = init(tmp_path, "--from-env", A_URL="http://x.test/a", B_URL="http://x.test:8080/b", C_URL="http://X.TEST/c",
                D_URL="http://x.test", E_URL="http://x.test", F_URL="http://x.test")
    assert upstreams(text) == {"a": {"name": "a", "match": {"hosts": ["x.test"]}}}
    assert "# A_URL, B_URL, C_URL, D_URL and 2 more\n" in text


def test_https_gets_a_hint(tmp_path):
    text = init(tmp_path, "--from-env", PAY_URL="https://pay.test/")
    assert upstreams(text) == {"pay": {"name": "pay", "match": {"hosts": ["pay.test"]}}}
    assert "    # tls: {originate: on}\n" in text
    file = tmp_path / "on.yaml"
    file.write_text(text.replace("# tls: {originate: on}", "tls: {originate: on}").replace("# timeouts:", "timeouts:"),
                    encoding="utf-8")
    done = run_evenkeel("explain", "-c", file, "http://pay.test/")
    assert done.returncode == 0 and "connects to: https://pay.test:443\n" in done.stdout, done


def test_https_on_another_port_may_be_tunnelled(tmp_path):
    text = init(tmp_path, "--from-env", PAY_URL="https://pay.test:8443/", PAY2_URL="http://pay.test/")
    assert [entry["match"] for entry in upstreams(text).values()] == [{"hosts": ["pay.test"], "ports": [80, 8443]}]
    done = run_evenkeel("explain", "-c", tmp_path / "policy.yaml", "CONNECT", "pay.test:8443", "--json")
    assert '"kind":"opaque_tunnel"' in done.stdout


def test_credentials_and_queries_stay_out(tmp_path):
    text = init(tmp_path, "--from-env", PAY_URL="http://me:s3cret@pay.test/key-s3cret?token=s3cret", TOKEN="s3cret")
    assert upstreams(text)["pay"]["match"] == {"hosts": ["pay.test"]}
    assert "s3cret" not in text and "me@" not in text and "key" not in text


@pytest.mark.parametrize("name, value", [
    ("DB_URL", "postgres://db.test/x"), ("X_URL", ""), ("X_URL", "http://"), ("X_URL", "pay.test"), ("X_URL", "/path"),
    ("X_URL", "http://{host}/"), ("X_URL", "http://pay.test:0/"), ("X_URL", "http://a b.test/"), ("X_URL", "*"),
    ("URL", "http://pay.test/"), ("_URL", "http://pay.test/"), ("X_URLS", "http://pay.test/"), ("x_url", "http://pay.test/"),
    ("EVENKEEL_ADMIN_URL", "http://127.0.0.1:9128/"), ("HTTP_PROXY", "http://127.0.0.1:3128"),
    ("X_URL", "http://" + "a" * 300 + ".test/"), ("X_URL", "http://pay.test/#part"),
])
def test_what_is_no_upstream(tmp_path, name, value):
    text = init(tmp_path, "--from-env", **{name: value})
    assert yaml.safe_load(text)["upstreams"] == [], text


def test_names_are_unique_and_valid(tmp_path):
    text = init(tmp_path, "--from-env", **{"FOO_URL": "http://a.test", "FOO_URI": "http://b.test", "FOO_ENDPOINT": "http://c.test",
                                           "DEFAULT_URL": "http://d.test", "9_URL": "http://e.test", "__URL": "http://f.test",
                                           "Ünïcode.x#y_URL": "http://g.test", "LONG" * 40 + "_URL": "http://h.test",
                                           "V6_URL": "http://[2001:DB8:0::1]:8080/"})
    found = upstreams(text)
    assert {name: entry["match"]["hosts"] for name, entry in found.items() if not name.startswith("longlong")} == {
        "foo": ["c.test"], "foo-2": ["b.test"], "foo-3": ["a.test"], "default-2": ["d.test"], "9": ["e.test"],
        "upstream": ["f.test"], "n-code-x-y": ["g.test"], "v6": ["[2001:db8::1]"]}
    assert len(found) == 9


def test_a_name_can_t_end_its_comment(tmp_path):
    text = init(tmp_path, "--from-env", **{"A\nlisten: off\n_URL": "http://a.test"})
    assert upstreams(text) == {"a-listen-off": {"name": "a-listen-off", "match": {"hosts": ["a.test"]}}}
    assert "# A?listen:?off?_URL\n" in text


def test_their_number_is_bounded(tmp_path):
    text = init(tmp_path, "--from-env", **{f"S{n:03}_URL": f"http://s{n}.test" for n in range(80)})
    found = upstreams(text)
    assert len(found) == 50 and list(found)[0] == "s000" and list(found)[-1] == "s049"
    assert text.endswith("  # 30 more URLs are in the environment.\n")


def test_output_that_does_not_arrive_is_no_success():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*WRAP, BIN, "init"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=10)
    assert done.returncode == 1 and done.stderr == "evenkeel: can't write the output: No space left on device\n"
