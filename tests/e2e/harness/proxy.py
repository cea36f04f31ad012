"""The program under test as a process: started on a policy, its log lines read, its metrics asked for, and stopped."""
import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote

import yaml

from .client import Client
from .tools import patience, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("EVENKEEL_BIN") or os.path.join(ROOT, "build", "evenkeel")
WRAP = shlex.split(os.environ.get("EVENKEEL_WRAP", ""))

# What the environment of the tests must not bring in.
CLEAN = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"}


def environment(more=None):
    env = {name: value for name, value in os.environ.items() if name not in CLEAN}
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99")
    env.update(more or {})
    return env


def run_evenkeel(*arguments, env=None, cwd=None, stdin=None, timeout=10):
    """Runs the program to its end: check, explain, schema, --help, a start that fails."""
    return subprocess.run([*WRAP, BIN, *map(str, arguments)], capture_output=True, text=True, env=environment(env),
                          cwd=cwd, input=stdin, timeout=patience(timeout))


def merged(below, above):
    """Deep merge of two dicts; above wins."""
    out = dict(below)
    for key, value in above.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


# Delays short enough for tests; everything else as built in.
QUICK = {
    "listen": "127.0.0.1:0",
    "admin": "127.0.0.1:0",
    "defaults": {"retry": {"backoff": {"base": "5ms", "max": "20ms", "jitter": "none"}}},
}

METRIC = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Proxy:
    def __init__(self, folder, policy=None, text=None, arguments=(), env=None, start=True):
        """policy: a dict laid over QUICK; text: a policy file as it stands; neither: built-in defaults."""
        self.folder = str(folder)
        self.file = None
        self.lines = []                  # parsed log lines
        self.noise = []                  # stderr lines that are no JSON: always a fault
        self.changed = threading.Condition()
        self.process = None
        self.code = None
        self.env = env
        self.arguments = list(map(str, arguments))
        if text is not None or policy is not None:
            self.file = os.path.join(self.folder, "policy.yaml")
            self.write(policy, text)
        if start:
            self.start()

    # --- the process

    def write(self, policy=None, text=None):
        """Replaces the policy file, as an editor does: a new file under the old name."""
        if text is None:
            text = yaml.safe_dump(merged(QUICK, policy or {}), sort_keys=False)
            text = re.sub(r"'(on|off)'", r"\1", text)  # written as a user would
        with open(self.file + ".new", "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(self.file + ".new", self.file)

    def start(self):
        assert os.access(BIN, os.X_OK), f"{BIN} is not there: run `make` first, or set EVENKEEL_BIN"
        command = [*WRAP, BIN, "run"]
        if self.file:
            command += ["-c", self.file]
        command += self.arguments
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment(self.env), cwd=self.folder)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.wait_ready()

    def _read(self):
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace").rstrip("\n")
            try:
                parsed = json.loads(text)
                assert isinstance(parsed, dict)
            except (ValueError, AssertionError):
                parsed = None
            with self.changed:
                if parsed is None:
                    self.noise.append(text)
                else:
                    parsed["_at"] = time.monotonic()
                    self.lines.append(parsed)
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait_ready(self, timeout=5):
        """Until it says where it listens: the proxy port, and the admin port unless that is off."""
        wanted = {"proxy"} if self._admin_off() else {"proxy", "admin"}
        end = time.monotonic() + patience(timeout)
        while True:
            if self.logs("start") and wanted <= {line.get("role") for line in self.logs("listening")}:
                return
            if self.process.poll() is not None:
                self._ended_at_start()
            assert time.monotonic() < end, f"the proxy did not say where it listens: {self.lines} {self.noise}"
            with self.changed:
                self.changed.wait(0.02)

    def _ended_at_start(self):
        self.reader.join(2)
        raise AssertionError(f"the proxy ended with code {self.process.returncode} at its start: "
                             f"{self.noise[-20:]} {self.lines[-5:]}")

    def _admin_off(self):
        if "--admin" in self.arguments:
            return self.arguments[self.arguments.index("--admin") + 1] == "off"
        if not self.file:
            return False
        with open(self.file, encoding="utf-8") as stream:
            return bool(re.search(r"^admin: *['\"]?(off|false)\b", stream.read(), re.M))

    @property
    def pid(self):
        if WRAP:
            children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
            return int(children[0]) if children else self.process.pid
        return self.process.pid

    def _address(self, role, **more):
        lines = [line for line in self.lines if line.get("event") == "listening" and line.get("role") == role
                 and all(line.get(key) == value for key, value in more.items())]
        assert lines, f"no listening line for {role} {more} in {self.lines}"
        address = lines[-1]["address"]
        if address.startswith("unix:"):
            return address[5:]
        host, _, port = address.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def address(self):
        return self._address("proxy")

    @property
    def port(self):
        return self.address[1]

    @property
    def admin(self):
        return self._address("admin")

    def upstream_address(self, name):
        return self._address("upstream", upstream=name)

    @property
    def url(self):
        return "http://%s:%d" % self.address

    @property
    def admin_url(self):
        return "http://%s:%d" % self.admin

    def signal(self, number):
        os.kill(self.pid, number)

    def hup(self):
        """Asks for a reload and waits for its result: the line that says ok or failed (faults and changes have lines of their own)."""
        def results():
            return [line for line in self.logs("reload") if line.get("result") in ("ok", "failed")]
        n = len(results())
        self.signal(signal.SIGHUP)
        return until(lambda: results()[n:], 3, "the result of the reload")[0]

    def term(self):
        self.signal(signal.SIGTERM)

    def wait_exit(self, timeout=5):
        """The exit code."""
        self.code = self.process.wait(patience(timeout))
        self.reader.join(2)
        return self.code

    def stop(self):
        """Stops it and holds it to a clean end."""
        if self.process is None:
            return
        killed = False
        if self.process.poll() is None:
            self.term()
            try:
                self.process.wait(patience(1.5))
            except subprocess.TimeoutExpired:
                self.term()  # the second one cuts what is left
                try:
                    self.process.wait(patience(5))
                except subprocess.TimeoutExpired:
                    killed = True
                    self.process.kill()
                    self.process.wait()
        self.code = self.process.returncode
        self.reader.join(patience(5))
        out = self.process.stdout.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert not self.noise, "stderr that is no log line:\n" + "\n".join(self.noise[:80])
        assert not killed, "the proxy did not end on two SIGTERMs"
        assert self.code in (0, 3), f"exit code {self.code}; last lines: {self.lines[-5:]}"
        assert out == b"", f"output on stdout: {out[:200]!r}"

    # --- its log

    def logs(self, event=None, **fields):
        with self.changed:
            return [line for line in self.lines if (event is None or line.get("event") == event)
                    and all(line.get(key) == value for key, value in fields.items())]

    def wait_log(self, event, count=1, timeout=3.0, **fields):
        """The count-th line of that event (and these fields), waiting for it."""
        end = time.monotonic() + patience(timeout)
        while True:
            found = self.logs(event, **fields)
            if len(found) >= count:
                return found[count - 1]
            with self.changed:
                if time.monotonic() > end:
                    raise AssertionError(f"no {event} line {fields} (number {count}); there are {self.lines[-8:]}")
                self.changed.wait(0.02)

    def access(self, count=1, **fields):
        """The count-th access line."""
        return self.wait_log("request", count, **fields)

    # --- asking it

    def client(self, **more):
        return Client(self.address, **more)

    def get(self, url, headers=(), **more):
        with self.client() as client:
            return client.get(url, headers, **more)

    def fetch(self, method, url, headers=(), body=None, **more):
        with self.client() as client:
            return client.fetch(method, url, headers, body, **more)

    def ask(self, path, method="GET", headers=(), body=None):
        """One request to the admin port."""
        with Client(self.admin) as client:
            host, port = self.admin
            return client.fetch(method, path, [("Host", f"{host}:{port}"), ("Connection", "close"), *headers], body)

    def explain(self, url, method="GET"):
        return self.ask(f"/explain?method={method}&url={quote(url, safe='')}")

    def metrics(self):
        """{(name, frozenset of label pairs): value}"""
        response = self.ask("/metrics")
        assert response.status == 200, response
        out = {}
        for line in response.text.split("\n"):
            if line and not line.startswith("#"):
                found = METRIC.match(line)
                assert found, f"bad metrics line {line!r}"
                key = (found[1], frozenset(LABEL.findall(found[2] or "")))
                assert key not in out, f"metric given twice: {line!r}"
                out[key] = float(found[3])
        return out

    def metric(self, name, samples=None, **labels):
        """The sum of the samples of that name that bear these labels; 0 when there is none."""
        wanted = set(labels.items())
        samples = self.metrics() if samples is None else samples
        return sum(value for (key, have), value in samples.items() if key == name and wanted <= have)

    def wait_metric(self, name, value, timeout=2.0, **labels):
        until(lambda: self.metric(name, **labels) == value, timeout,
              f"{name}{labels} = {value} (it is {self.metric(name, **labels)})")

    # --- what it holds

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * 4096

    def held(self):
        """What an exchange takes and must give back. Idle pooled connections are no leak."""
        fds = self.fds()
        samples = self.metrics()
        idle = self.metric("evenkeel_pool_connections", samples, state="idle")
        return {
            "fds": fds - idle,
            "active": self.metric("evenkeel_pool_connections", samples, state="active"),
            "connecting": self.metric("evenkeel_pool_connections", samples, state="connecting"),
            "pending": self.metric("evenkeel_pool_pending", samples),
            "in_flight": self.metric("evenkeel_in_flight", samples),
            "tunnels": self.metric("evenkeel_tunnels_active", samples),
            "buffered": self.metric("evenkeel_buffered_bytes", samples),
        }

    @contextmanager
    def no_leak(self, timeout=1.0):
        """What the block takes is given back within a second of its end."""
        before = until(self._steady, 2, "a steady state before the case")
        yield
        end = time.monotonic() + patience(timeout)
        while True:
            after = self.held()
            more = {key: (before[key], after[key]) for key in after if after[key] > before[key]}
            if not more:
                return
            assert time.monotonic() < end, f"not given back (before, after): {more}"
            time.sleep(0.02)

    def _steady(self):
        first = self.held()
        time.sleep(0.01)
        return first if self.held() == first else None
