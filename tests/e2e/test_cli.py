"""The command line: what is refused and how it is said, `explain`, and that what it explains is what happens."""
import json
import time

import pytest

from harness import Client, free_port, hold, reply, run_evenkeel

HINT = "Try 'evenkeel --help'.\n"

POLICY = """\
unmatched: deny
upstreams:
  - name: pay
    match: {hosts: [pay.test, "*.pay.test"]}
    timeouts: {total: 8s}
    routes:
      - name: charges
        match: {methods: [POST], paths: ["/charges"]}
        retry: {max_attempts: 1}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def explained(*arguments):
    done = run_evenkeel("explain", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


# --- usage


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(option):
    done = run_evenkeel(option)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Usage: evenkeel [run] ")
    assert run_evenkeel("explain", option).stdout == done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option):
    done = run_evenkeel(option)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("evenkeel ") and done.stdout.count("\n") == 1


@pytest.mark.parametrize("arguments, why", [
    (("chekc", "x.yaml"), "unknown command 'chekc'; did you mean check?"),
    (("frobnicate",), "unknown command 'frobnicate'; the commands are run, check, explain, init, health and schema"),
    (("policy.yaml",), "unknown command 'policy.yaml'; the commands are run, check, explain, init, health and schema"),
    (("check",), "check needs a policy file: evenkeel check FILE"),
    (("check", "a", "b"), "too many arguments"),
    (("check", "-c", "a", "b"), "too many arguments"),
    (("explain",), "explain needs a URL: evenkeel explain [-c FILE] [METHOD] URL"),
    (("explain", "GET", "http://a.test/", "x"), "too many arguments"),
    (("explain", "a", "b", "c", "d"), "too many arguments"),
    (("run", "x"), "run takes no arguments but options"),
    (("schema", "x"), "schema takes no arguments but options"),
    (("init", "x"), "init takes no arguments but options"),
    (("health", "x"), "health takes no arguments but options"),
    (("schema", "-c", "x"), "schema takes no -c"),
    (("init", "--json"), "init takes no --json"),
    (("check", "x", "--listen", "127.0.0.1:1"), "check takes no --listen"),
    (("--ready",), "run takes no --ready"),
    (("run", "--from-env"), "run takes no --from-env"),
    (("explain", "--admin", "off", "http://a.test/"), "explain takes no --admin"),
    (("check", "x", "--format", "xml"), "--format takes text or json"),
    (("--log-level", "loud"), "--log-level takes debug, info, warn or error"),
    (("--listen", "127.0.0.1:0") * 65, "too many --listen options"),
])
def test_usage_errors(arguments, why):
    done = run_evenkeel(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"evenkeel: {why}\n{HINT}")


@pytest.mark.parametrize("arguments, why", [
    (("--frob",), "unrecognized option '--frob'"),
    (("-x",), "invalid option -- 'x'"),
    (("run", "-c"), "option requires an argument -- 'c'"),
    (("check", "--json=x", "y"), "option '--json' doesn't allow an argument"),
    (("--l", "x"), "option '--l' is ambiguous; possibilities: '--listen' '--log-level'"),
])
def test_unknown_options(arguments, why):
    done = run_evenkeel(*arguments)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.endswith(f": {why}\n{HINT}"), done.stderr


@pytest.mark.parametrize("arguments", [
    ("check", "-c", "{}"), ("check", "{}"), ("-c", "{}", "check"), ("--config={}", "check"), ("check", "--", "{}"),
    ("--", "check", "{}"),
])
@pytest.mark.parametrize("env", [{}, {"POSIXLY_CORRECT": "1"}])
def test_options_and_words_in_any_order(file, arguments, env):
    done = run_evenkeel(*[argument.format(file) for argument in arguments], env=env)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize("arguments", [("check", "policy.yaml"), ("explain", "http://a.test/"), ("schema",), ("--help",)])
def test_schema_and_the_others_are_deterministic(arguments, file):
    first, second = (run_evenkeel(*arguments, cwd=file.parent) for _ in range(2))
    assert first.returncode == 0 and first.stdout == second.stdout and first.stdout


# --- explain


def test_explain_says_why_and_from_where(file):
    done = run_evenkeel("explain", "-c", "policy.yaml", "POST", "http://pay.test/charges", cwd=file.parent)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        "POST http://pay.test/charges", "",
        "upstream: pay", "  host pay.test is listed by name  policy.yaml:4",
        "route: charges", "  the first that matches: method POST is listed, path /charges matches /charges  policy.yaml:7"]
    values = {line.split(": ")[0].strip(): line.split()[-1] for line in lines if line.startswith("  ") and ": " in line}
    assert values["timeouts.total"] == "policy.yaml:5" and values["retry.max_attempts"] == "policy.yaml:9"
    assert values["timeouts.attempt"] == "built-in" and values["unmatched"] == "policy.yaml:1"


def test_explain_without_a_file_tells_the_built_in_values():
    story = explained("http://a.test/")
    assert (story["method"], story["upstream"], story["route"]) == ("GET", "default", None)
    assert {value["origin"] for value in story["values"]} == {"built-in"}
    assert story["timeline"]["longest_ms"] == 30000 and story["timeline"]["application_timeout_ms"] == 31500


def test_explain_tells_a_refusal(file):
    done = run_evenkeel("explain", "-c", file, "http://other.test/")
    assert done.returncode == 0 and "\nupstream: none\n" in done.stdout and "\nanswer: 403 http_request_denied\n" in done.stdout


def test_explain_keeps_credentials_and_queries_to_itself():
    for more in ((), ("--json",)):
        done = run_evenkeel("explain", "http://me:s3cret@a.test/x?token=s3cret", *more)
        assert done.returncode == 0 and "s3cret" not in done.stdout + done.stderr and "me:" not in done.stdout.split("\n")[0]


@pytest.mark.parametrize("arguments, why", [
    (("nothing",), "bad request target (RFC 9112 3.2)"),
    (("/path",), "no host in it"),
    (("ftp://a.test/",), "only http and https URLs are served"),
    (("http://a.test:99999/",), "port is not within 1-65535"),
    (("http://a b/",), "white space or a control character in the request target (RFC 9112 3.2)"),
    (("CONNECT", "a.test"), "CONNECT needs host:port (RFC 9112 3.2.3)"),
    (("G@T", "http://a.test/"), "bad method: it must be a token such as GET (RFC 9110 9.1)"),
    (("", "http://a.test/"), "bad method: it must be a token such as GET (RFC 9110 9.1)"),
    (("",), "empty request target (RFC 9112 3.2)"),
])
def test_explain_of_what_is_no_request(arguments, why):
    done = run_evenkeel("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (f"evenkeel: explain: {why}: write METHOD http://HOST[:PORT][/PATH] (or https://), "
                           f"or CONNECT HOST:PORT\n{HINT}")


def test_explain_with_a_faulty_file(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("defaults:\n  timeouts: {totl: 3s}\n", encoding="utf-8")
    done = run_evenkeel("explain", "-c", path, "http://a.test/")
    assert (done.returncode, done.stdout) == (1, "") and f"{path}:2:14: error: " in done.stderr and "total" in done.stderr
    done = run_evenkeel("explain", "-c", tmp_path / "none.yaml", "http://a.test/")
    assert (done.returncode, done.stdout) == (1, "") and "No such file or directory" in done.stderr


def test_explain_is_what_happens(proxy, origin):
    """The same policy, asked and run: upstream and attempts agree."""
    u = origin(reply(503))
    p = proxy(defaults={"retry": {"max_attempts": 2}}, upstreams=[
        {"name": "exact", "match": {"hosts": ["127.0.0.1"]}, "retry": {"max_attempts": 3},
         "routes": [{"match": {"methods": ["DELETE"]}, "retry": {"max_attempts": 1}}, {"match": {"paths": ["/a/*"]}, "retry": {"max_attempts": 4}}]},
        {"name": "port", "match": {"hosts": ["127.0.0.1"], "ports": [u.port]},
         "routes": [{"match": {"methods": ["DELETE"]}, "retry": {"max_attempts": 1}}, {"match": {"paths": ["/a/*"]}, "retry": {"max_attempts": 4}}]},
        {"name": "any", "match": {"hosts": ["*"]}}])
    for method, path, attempts in (("GET", "/", 2), ("DELETE", "/a/b", 1), ("GET", "/b/../%61/x", 4), ("PUT", "/a/x?q=1", 4)):
        story = explained("-c", p.file, method, u.url(path))
        response = p.fetch(method, u.url(path))
        assert response.status == 503
        assert story["upstream"] == response.header("Evenkeel-Upstream") == "port"
        assert story["timeline"]["max_attempts"] == int(response.header("Evenkeel-Attempts")) == attempts


@pytest.mark.parametrize("timeouts, longest_ms", [
    ({"attempt": "200ms", "total": "30s", "pool_wait": "0s"}, 610),
    ({"attempt": "200ms", "total": "500ms", "pool_wait": "0s"}, 500),
    ({"attempt": "300ms", "total": "off", "pool_wait": "0s"}, 910),
])
def test_the_longest_wait_is_what_one_waits(proxy, origin, timeouts, longest_ms):
    """An origin that never answers makes the worst case come true, to the millisecond that it was told."""
    u = origin(hold())
    p = proxy(defaults={"timeouts": timeouts, "retry": {"max_attempts": 3, "retry_after": {"honor": "off"}, "backoff": {
        "base": "5ms", "multiplier": 1, "jitter": "none"}}})
    story = explained("-c", p.file, u.url("/"))
    assert story["timeline"]["longest_ms"] == longest_ms
    began = time.monotonic()
    response = p.get(u.url("/"))
    waited_ms = (time.monotonic() - began) * 1000
    assert response.status == 504 and longest_ms - 5 <= waited_ms <= longest_ms + 300, waited_ms
    assert waited_ms < story["timeline"]["application_timeout_ms"]


def test_explain_knows_local_ports(proxy, origin):
    u = origin(reply(200, b"ok"))
    port = free_port()
    p = proxy(upstreams=[{"name": "local", "match": {"hosts": ["127.0.0.1"], "ports": [u.port]}, "listen": f"127.0.0.1:{port}"}])
    story = explained("-c", p.file, f"http://127.0.0.1:{port}/x")
    assert (story["upstream"], story["connects_to"]) == ("local", f"http://127.0.0.1:{u.port}")
    with Client(p.upstream_address("local")) as client:
        response = client.fetch("GET", "/x", [("Host", f"127.0.0.1:{port}")])
    assert response.status == 200 and response.header("Evenkeel-Upstream") == "local"
