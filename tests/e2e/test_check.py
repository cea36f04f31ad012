"""`check` as a command: exit codes, JSON for tools, and hostile files, which are refused quickly and with a message."""
import json
import os
import random
import resource
import subprocess

import pytest

from harness import BIN, SLOWNESS, run_evenkeel, took
from harness.proxy import ROOT, environment

FAULTY = """\
unmatched: denny
limits:
  request_buffer: 2MiB
  buffered_bytes: 1MiB
defaults:
  tiemouts: {total: 5s}
"""


def check(path, *more):
    return run_evenkeel("check", path, *more)


# --- exit codes and channels

def test_exit_codes(tmp_path):
    good, warned, bad = (tmp_path / name for name in ("good.yaml", "warned.yaml", "bad.yaml"))
    good.write_text("watch: on\n")
    warned.write_text("defaults: {timeouts: {total: 5s}}\n")
    bad.write_text(FAULTY)
    for path, code in ((good, 0), (warned, 0), (bad, 1), (tmp_path / "none.yaml", 1), (tmp_path, 1)):
        for more in ((), ("--format", "json")):
            done = check(path, *more)
            assert (done.returncode, done.stderr) == (code, ""), path
    assert check(good, "--no-such-option").returncode == 2


def test_same_faults_at_start_and_in_check(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(FAULTY)
    started = run_evenkeel("run", "-c", bad)
    assert started.returncode == 1 and started.stdout == ""
    for line in check(bad).stdout.splitlines():
        if ": error: " in line:
            assert line in started.stderr.splitlines()


# --- JSON

def test_json_of_faults(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(FAULTY)
    done = check(bad, "--format", "json")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == {
        "file": str(bad), "errors": 2, "warnings": 1, "faults": [
            {"severity": "error", "line": 1, "column": 12, "message": 'unmatched: unknown value "denny"; did you mean deny? Known are allow, deny'},
            {"severity": "warning", "line": 3, "column": 3, "related_line": 4,
             "message": "limits.request_buffer is over limits.buffered_bytes, which holds for all requests together"},
            {"severity": "error", "line": 6, "column": 3, "message": 'unknown key "tiemouts" in defaults; did you mean timeouts?'}]}


def test_json_of_a_contradiction_names_both_lines(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("limits:\n  request_buffer: 2MiB\n  buffered_bytes: 1MiB\n")
    said = json.loads(check(file, "--format", "json").stdout)
    assert (said["errors"], said["warnings"]) == (0, 1)
    assert [(each["severity"], each["line"], each["related_line"]) for each in said["faults"]] == [("warning", 2, 3)]


def test_json_of_a_good_file(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("watch: on\n")
    assert json.loads(check(file, "--format", "json").stdout) == {"file": str(file), "errors": 0, "warnings": 0, "faults": []}


@pytest.mark.parametrize("kind", ["good", "bad"])
def test_json_and_text_agree(kind):
    """Every fixture: the same faults at the same places."""
    for name in sorted(os.listdir(os.path.join(ROOT, "tests", "policies", kind))):
        if not name.endswith(".yaml"):
            continue
        path = os.path.join("tests", "policies", kind, name)
        text, machine = (run_evenkeel("check", path, *more, cwd=ROOT) for more in ((), ("--format", "json")))
        said = json.loads(machine.stdout)
        heads = [f"{path}:{each['line']}:{each['column']}: {each['severity']}: {each['message']}" if "line" in each else
                 f"{path}: {each['severity']}: {each['message']}" for each in said["faults"]]
        assert [line for line in text.stdout.splitlines() if line.startswith(path + ":")] == heads
        assert text.returncode == machine.returncode == (1 if said["errors"] else 0)


def test_files_that_are_named_are_faults_like_others(tmp_path):
    """All of them in one pass, each at its key, in both forms."""
    (tmp_path / "empty.pem").write_text("")
    file = tmp_path / "p.yaml"
    file.write_text(f"""\
limits: {{request_buffer: 2MiB, buffered_bytes: 1MiB}}
upstreams:
  - name: a
    match: {{hosts: [a.test]}}
    tls:
      ca_file: {tmp_path}/empty.pem
  - {{name: b, match: {{hosts: [b.test]}}, tls: {{ca_file: {tmp_path}/none.pem}}}}
""")
    said = json.loads(check(file, "--format", "json").stdout)
    assert (said["errors"], said["warnings"]) == (2, 1)
    assert [(each["severity"], each["line"], each["column"], each["message"].split(": ")[:2]) for each in said["faults"]] == [
        ("warning", 1, 10, ["limits.request_buffer is over limits.buffered_bytes, which holds for all requests together"]),
        ("error", 6, 7, ["upstream a", "tls.ca_file"]), ("error", 7, 47, ["upstream b", "tls.ca_file"])]
    done = check(file)
    assert done.returncode == 1 and done.stderr == "" and "\n    6 |       ca_file: " in done.stdout
    assert done.stdout.endswith(f"2 errors and 1 warning in {file}\n"), done.stdout


# --- hostile files

def bomb(depth, width):
    lines = ["x-0: &a0 [" + ", ".join(["1"] * width) + "]"]
    lines += [f"x-{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * width) + "]" for i in range(1, depth)]
    return "\n".join(lines) + "\n"


HOSTILE = {
    "deep lists": "x-a: " + "[" * 400000,
    "deep lists, closed": "x-a: " + "[" * 200000 + "]" * 200000,
    "deep maps": "x-a: " + "{a: " * 200000,
    "deep blocks": "".join(" " * i + "a:\n" for i in range(1000)),
    "deep dashes": "- " * 300000,
    "deep keys": "? " * 300000,
    "billion laughs": bomb(30, 9),
    "wide laughs": bomb(3, 3000),
    "merged laughs": "x-0: &m0 {a: 1}\n" + "".join(f"x-{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}\n" for i in range(1, 30)),
    "many keys": "".join(f"k{i}: 1\n" for i in range(80000)),
    "many duplicate keys": "watch: on\n" * 80000,
    "many anchors": "".join(f"x-{i}: &n{i} 1\n" for i in range(45000)),
    "one long line": "unmatched: " + "d" * 1000000,
    "one long key": "d" * 1000000 + ": 1",
    "only anchors": "&a " * 300000,
    "only tags": "!a " * 300000,
    "only quotes": '"' * 999999,
    "only newlines": "\n" * 1000000,
    "too large": "# " + "x" * (2 << 20),
    "many upstreams of one name": "upstreams:\n" + "  - {name: a, match: {hosts: [h]}}\n" * 25000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_judged_quickly(tmp_path, name):
    path = tmp_path / "p.yaml"
    path.write_text(HOSTILE[name])
    with took(0, 1.5 * max(1, SLOWNESS)):
        done = check(path)
    expected = 0 if name == "only newlines" else 1
    assert done.returncode == expected and done.stderr == "" and done.stdout, (done.returncode, done.stdout[:300], done.stderr[:300])


def test_binary_junk(tmp_path):
    rng = random.Random(5)
    for i in range(60):
        path = tmp_path / "p.yaml"
        path.write_bytes(rng.randbytes(rng.choice([1, 3, 100, 5000])) if i else open(BIN, "rb").read(900000))
        done = subprocess.run([BIN, "check", path], capture_output=True, env=environment(), timeout=10)
        assert done.returncode in (0, 1) and done.stderr == b""
        done.stdout.decode()  # what is shown of it is text
        assert b"\x1b" not in done.stdout and b"\0" not in done.stdout


def test_devices_pipes_and_folders(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with took(0, 7):
        for path, why in (("/dev/zero", "1 MiB"), (fifo, "can't be read"), (tmp_path, "directory"), ("/dev/full", "1 MiB")):
            done = check(path)
            assert done.returncode == 1 and why in done.stdout, done.stdout
    assert check("/dev/null").returncode == 0


@pytest.mark.skipif(SLOWNESS > 1, reason="sanitizers take memory of their own")
def test_memory_stays_bounded(tmp_path):
    path = tmp_path / "p.yaml"
    for name in ("billion laughs", "wide laughs", "merged laughs", "many keys", "many anchors", "deep lists", "many upstreams of one name"):
        path.write_text(HOSTILE[name])
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        check(path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        assert after == before or after < 256 * 1024, f"{name}: {after} KiB"
