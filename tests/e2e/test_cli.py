"""The commands: check, explain, schema, help, version."""
import json
import os

import jsonschema
import pytest
import yaml

from harness import run_evenkeel
from harness.proxy import ROOT

EXAMPLE = os.path.join(ROOT, "policies.example.yaml")


@pytest.fixture
def policy(tmp_path):
    def write(text):
        file = tmp_path / "p.yaml"
        file.write_text(text)
        return file
    return write


def faults(policy, text, n=None):
    """The lines FILE:LINE:COL: message that check prints, without the file."""
    done = run_evenkeel("check", policy(text))
    out = done.stdout + done.stderr
    assert done.returncode == 1, out
    lines = [line.split("p.yaml:", 1)[1] for line in out.splitlines() if "p.yaml:" in line]
    if n is not None:
        assert len(lines) == n, out
    return lines


def test_version_and_help():
    done = run_evenkeel("--version")
    assert done.returncode == 0 and done.stdout.splitlines()[0].startswith("evenkeel") and "0.1.0" in done.stdout
    done = run_evenkeel("--help")
    assert done.returncode == 0 and done.stderr == ""
    for word in ("run", "check", "explain", "schema", "--listen", "--admin", "--log-level", "-c"):
        assert word in done.stdout, word


@pytest.mark.parametrize("arguments", [["--nope"], ["-Z"], ["frobnicate"], ["check"], ["explain"], ["run", "-c"], ["--listen"],
                                       ["--log-level", "loud"], ["run", "extra"], ["explain", "-c", "x"], ["schema", "extra"]])
def test_usage_errors(arguments):
    done = run_evenkeel(*arguments)
    assert done.returncode == 2 and done.stdout == "" and "--help" in done.stderr and len(done.stderr) < 1000


def test_misspelt_option_gets_a_hint():
    done = run_evenkeel("--lisen", "127.0.0.1:0")
    assert done.returncode == 2 and "--listen" in done.stderr


@pytest.mark.parametrize("value", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "[::1:80", "unix:", ":80x"])
def test_bad_listen_address(value):
    done = run_evenkeel("--listen", value, "--admin", "off")
    assert done.returncode in (1, 2) and value in done.stderr


def test_example_is_good():
    done = run_evenkeel("check", EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_schema_takes_the_example_and_refuses_faults():
    done = run_evenkeel("schema")
    assert done.returncode == 0
    schema = json.loads(done.stdout)
    assert "2020-12" in schema["$schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    assert list(validator.iter_errors({})) == []
    with open(EXAMPLE, encoding="utf-8") as stream:
        example = plain(yaml.compose(stream))
    assert [f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(example)] == []
    for bad in ({"tiemouts": {}}, {"defaults": {"timeouts": {"total": []}}}, {"upstreams": {}}, {"defaults": {"retry": {"max_attempts": 0}}}):
        assert list(validator.iter_errors(bad)), bad


def plain(node):
    """The values as the file has them: in YAML 1.2, on and off are words, which PyYAML takes for booleans."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [plain(item) for item in node.value]
    if node.tag.endswith((":int", ":float")):
        return yaml.SafeLoader("").construct_object(node)
    return None if node.tag.endswith(":null") else node.value


def test_no_policy_at_all_is_good(policy):
    for text in ("", "# nothing\n", "{}\n", "---\n"):
        done = run_evenkeel("check", policy(text))
        assert done.returncode == 0, (text, done)


def test_every_fault_is_reported_at_its_place(policy):
    text = """listen: 127.0.0.1:0
unmached: allow
defaults:
  timeouts: {total: 5 parsecs, attempt: -1s}
  retry:
    max_attempts: 0
    max_attempts: 3
    on: [resett, 600]
    backoff: {jitter: sometimes}
upstreams:
  - match: {hosts: [a.test]}
  - name: b
"""
    lines = faults(policy, text)
    at = {tuple(map(int, line.split(":")[:2])): line for line in lines}
    assert (2, 1) in at and "unmatched" in at[(2, 1)], lines
    assert (4, 21) in at and "parsecs" in at[(4, 21)], lines
    assert any(line.startswith("4:") and "-1s" in line for line in lines), lines
    assert any(line.startswith("6:") for line in lines) and any(line.startswith("7:5:") for line in lines), lines
    assert any(line.startswith("8:") and "reset" in line for line in lines) and any(line.startswith("8:") and "600" in line for line in lines)
    assert any(line.startswith("9:") and "sometimes" in line for line in lines), lines
    assert any(line.startswith("11:") and "name" in line for line in lines), lines
    assert any(line.startswith("12:") and "match" in line for line in lines), lines
    assert [int(line.split(":")[0]) for line in lines] == sorted(int(line.split(":")[0]) for line in lines)


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\tx: 1", "a: 'x", "- 1", "just text", "a: &x [*x]", "a: *unknown", "\x00", "%YAML 9.9\n---\na",
                                  "{" * 2000, "- " * 5000, "? [a]\n: 1", "<<: 5", "a: !!python/object:x {}"])
def test_broken_yaml_is_a_fault_with_a_place(policy, text):
    faults(policy, text)


def test_alias_bomb_ends(policy):
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    faults(policy, text)


@pytest.mark.parametrize("value, ok", [("250ms", True), ("2s", True), ("1m30s", True), ("1h", True), ("off", True), ("1.5s", None), ("5", False),
                                       ("s", False), ("-1s", False), ("1s1s", False), ("1ms1s", None), ("99999999999h", False), ("1 s", None),
                                       ("", False), ("1d", None), ("0x5s", False), ("[]", False), ("{}", False)])
def test_durations(policy, value, ok):
    done = run_evenkeel("check", policy(f"defaults:\n  timeouts:\n    total: {value}\n"))
    assert done.returncode in (0, 1)
    if ok is not None:
        assert (done.returncode == 0) == ok, done


@pytest.mark.parametrize("value, ok", [("64KiB", True), ("1MiB", True), ("10MB", True), ("4096", True), ("-1", False), ("1XB", False),
                                       ("99999999999999999999", False), ("1e3", False), ("KiB", False)])
def test_sizes(policy, value, ok):
    done = run_evenkeel("check", policy(f"limits:\n  request_buffer: {value}\n"))
    assert (done.returncode == 0) == ok, done


@pytest.mark.parametrize("value, ok", [("20%", True), ("0.2", True), ("0", True), ("-1%", False), ("x%", False), ("nan", False), ("inf", False)])
def test_ratios(policy, value, ok):
    done = run_evenkeel("check", policy(f"defaults:\n  retry:\n    budget: {{ratio: {value}}}\n"))
    assert (done.returncode == 0) == ok, done


def test_environment_in_values(policy):
    file = policy('listen: "127.0.0.1:${EK_PORT}"\ndefaults:\n  timeouts: {total: "${EK_TOTAL:-7s}"}\n')
    done = run_evenkeel("explain", "-c", file, "http://x.test/", env={"EK_PORT": "0"})
    assert done.returncode == 0 and "7s" in done.stdout, done
    assert run_evenkeel("explain", "-c", file, "http://x.test/", env={"EK_PORT": "0", "EK_TOTAL": "9s"}).stdout.count("9s") >= 1
    assert "7s" in run_evenkeel("explain", "-c", file, "http://x.test/", env={"EK_PORT": "0", "EK_TOTAL": ""}).stdout
    done = run_evenkeel("check", file)
    assert done.returncode == 1 and "EK_PORT" in done.stdout + done.stderr and "p.yaml:1:" in done.stdout + done.stderr


def test_anchors_and_merge_keys(policy):
    file = policy("""
defaults: &base
  timeouts: {total: 7s}
upstreams:
  - name: a
    match: {hosts: [a.test]}
    retry: &r {max_attempts: 5}
  - name: b
    match: {hosts: [b.test]}
    retry: {<<: *r, nested: allow}
""")
    done = run_evenkeel("explain", "-c", file, "http://b.test/")
    assert done.returncode == 0 and "upstream: b" in done.stdout
    assert any("max_attempts" in line and "5" in line for line in done.stdout.splitlines()), done.stdout


def test_explain_names_its_sources(policy):
    file = policy("""defaults:
  timeouts: {total: 20s}
upstreams:
  - name: pay
    match: {hosts: ["*.pay.test"]}
    timeouts: {attempt: 3s}
    routes:
      - match: {methods: [POST], paths: ["/c/*"]}
        retry: {max_attempts: 1}
""")
    done = run_evenkeel("explain", "-c", file, "POST", "http://api.pay.test/c/1?x=1")
    assert done.returncode == 0 and "upstream: pay" in done.stdout and "route: " in done.stdout

    def line(word):
        return next(each for each in done.stdout.splitlines() if word in each)
    assert line("total").rstrip().endswith("p.yaml:2") and "20s" in line("total")
    assert any("attempt" in each and "3s" in each and each.rstrip().endswith("p.yaml:6") for each in done.stdout.splitlines())
    assert line("max_attempts").rstrip().endswith("p.yaml:9")
    assert line("pool_wait").rstrip().endswith("built-in")
    other = run_evenkeel("explain", "-c", file, "http://api.pay.test/c/1")
    assert "p.yaml:9" not in other.stdout
    unmatched = run_evenkeel("explain", "-c", file, "http://else.test/")
    assert "upstream: default" in unmatched.stdout


@pytest.mark.parametrize("text, word", [
    ("defaults: {timeouts: {total: 1s, connect: 2s}}", "connect"), ("defaults: {timeouts: {total: 1s, attempt: 2s}}", "attempt"),
    ("defaults: {pool: {max_connections: 50, max_in_flight: 10}}", "max_in_flight"),
    ("upstreams: [{name: a, match: {hosts: [a.test]}, routes: [{match: {paths: ['/*']}}, {match: {paths: ['/x']}}]}]", "route")])
def test_contradictions_are_warned_of(policy, text, word):
    done = run_evenkeel("check", policy(text + "\n"))
    out = done.stdout + done.stderr
    assert done.returncode == 0 and "warning" in out and word in out


def test_ties_are_errors(policy):
    faults(policy, "upstreams:\n  - {name: a, match: {hosts: [x.test]}}\n  - {name: b, match: {hosts: [X.test.]}}\n")
    faults(policy, "upstreams:\n  - {name: a, match: {hosts: [x.test]}}\n  - {name: a, match: {hosts: [y.test]}}\n")


def test_check_takes_a_missing_or_unreadable_file(tmp_path):
    done = run_evenkeel("check", tmp_path / "none.yaml")
    assert done.returncode == 1 and "none.yaml" in done.stderr + done.stdout
    assert run_evenkeel("check", tmp_path).returncode == 1
