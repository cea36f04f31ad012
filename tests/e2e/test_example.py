"""The worked example, tests/examples/aiohttp_service: an aiohttp service that calls a flaky API, before and after."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from harness import free_port, patience, took, until
from harness.proxy import ROOT, environment

FOLDER = os.path.join(ROOT, "tests", "examples", "aiohttp_service")


class Program:
    """A Python program that serves HTTP and says on its standard output when it does."""

    def __init__(self, file, arguments, ready, **env):
        self.process = subprocess.Popen([sys.executable, file, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, env=environment({"PYTHONUNBUFFERED": "1", **env}))
        self.output, self.url = [], None
        for line in self.process.stdout:
            self.output.append(line)
            found = re.search(ready, line)
            if found:
                self.url = found[1]
                break
        assert self.url, f"{file} did not start: {self.output}"

    def ask(self, path, method="GET", body=None):
        """(status, body): parsed when it is JSON."""
        request = urllib.request.Request(self.url + path, method=method, data=body and body.encode())
        try:
            answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=patience(15))
        except urllib.error.HTTPError as fault:
            answer = fault
        with answer:
            text = answer.read().decode()
            is_json = answer.headers["Content-Type"].startswith("application/json")
            return answer.status, json.loads(text) if is_json else text

    def term(self):
        self.process.send_signal(signal.SIGTERM)

    def end(self):
        """The exit code, after SIGTERM; the rest of the output is read."""
        try:
            self.output += self.process.communicate(timeout=patience(10))[0].splitlines(True)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def api(makers):
    """The flaky API that the service calls."""
    return makers.add(Program(os.path.join(ROOT, "tests", "origin", "flaky_origin.py"), ["--port", "0"], r"^flaky origin on (\S+)"))


@pytest.fixture
def sidecar(proxy):
    with open(os.path.join(FOLDER, "policies.yaml"), encoding="utf-8") as stream:
        text = stream.read()
    return proxy(text=text, env={"EVENKEEL_LISTEN": "127.0.0.1:0", "EVENKEEL_ADMIN": "127.0.0.1:0"})


@pytest.fixture
def service(makers, api):
    def make(which, **env):
        port = free_port()
        return makers.add(Program(os.path.join(FOLDER, which), [], r"Running on (http://[\d.:]+)", PORT=str(port),
                                  API_URL=api.url, **env))
    return make


@pytest.fixture(params=["before", "after"])
def either(request, service):
    """The service as it was, and with Evenkeel beside it: it has to behave alike."""
    if request.param == "before":
        return service("before.py")
    return service("after.py", HTTP_PROXY=request.getfixturevalue("sidecar").url)


def test_same_answers_before_and_after(either, api):
    assert either.ask("/price/apple") == (200, "fine, on attempt 3\n")
    with took(1.0, 1.5):
        assert either.ask("/stock/apple") == (200, "fine, on attempt 2\n")
    assert api.ask("/counts") == (200, {"price-apple": 3, "stock-apple": 2})


def test_same_bound_before_and_after(either, api):
    with took(1.8, 2.3):
        status, body = either.ask("/quote/apple")
    assert (status, set(body)) == (504, {"error"})
    assert api.ask("/counts") == (200, {"quote-apple": 4})


def test_evenkeel_answers_before_the_client_timeout(service, sidecar):
    s = service("after.py", HTTP_PROXY=sidecar.url)
    status, body = s.ask("/quote/apple")
    assert status == 504 and body["error"].startswith(("the attempt took longer than timeouts.attempt",
                                                       "the whole exchange took longer than timeouts.total"))
    line = sidecar.access()
    assert (line["upstream"], line["status"], line["error"], line["attempts"]) == ("api", 504, "http_response_timeout", 4)
    assert sidecar.metric("evenkeel_cancelled_total") == 0


def test_every_event_arrives_once(either, api):
    keys = {either.ask("/events", "POST", f"event {i}")[1]["key"]: f"event {i}" for i in range(8)}
    assert len(keys) == 8
    until(lambda: either.ask("/status")[1] == {"taken": 8, "delivered": 8}, 8, "all events are delivered")
    # The API took each in at once, but broke the connection before it said so: sent twice, taken in once.
    assert api.ask("/inbox") == (200, {key: {"body": body, "came": 2} for key, body in keys.items()})
    either.term()
    assert either.end() == 0
    assert either.output[-1] == "delivered 8 of 8 events\n"


def test_a_cancelled_task_frees_its_seat(service, sidecar):
    s = service("after.py", HTTP_PROXY=sidecar.url)
    assert s.ask("/reports", "POST") == (202, {"report": 0})
    sidecar.wait_metric("evenkeel_in_flight", 1, upstream="api")
    sidecar.wait_metric("evenkeel_pool_connections", 1, upstream="api", state="active")
    assert s.ask("/reports/0") == (200, {"state": "running"})
    assert s.ask("/reports/0", "DELETE") == (200, {"state": "cancelled"})
    sidecar.wait_metric("evenkeel_in_flight", 0, timeout=0.5, upstream="api")
    sidecar.wait_metric("evenkeel_pool_connections", 0, timeout=0.5, upstream="api", state="active")
    assert sidecar.metric("evenkeel_cancelled_total", upstream="api") == 1
    line = sidecar.access()
    assert (line["route"], line["verdict"], line["attempts"]) == ("reports", "cancelled", 1)
    assert sidecar.metric("evenkeel_attempts_total", outcome="cancelled") == 1
    assert sidecar.metric("evenkeel_attempts_total", outcome="reset") == 0
    s.term()
    assert s.end() == 0


def test_both_are_told_to_stop_at_once(service, sidecar, api):
    """As an orchestrator does it: the queued events still go out through the sidecar, which then ends on its own."""
    s = service("after.py", HTTP_PROXY=sidecar.url)
    keys = {s.ask("/events", "POST", f"event {i}")[1]["key"]: f"event {i}" for i in range(20)}
    sidecar.term()
    s.term()
    assert s.end() == 0
    assert s.output[-1] == "delivered 20 of 20 events\n"
    assert api.ask("/inbox") == (200, {key: {"body": body, "came": 2} for key, body in keys.items()})
    assert sidecar.process.poll() is None, "drain.delay is longer than the service takes"
    assert sidecar.wait_exit(8) == 0
    assert [line["stage"] for line in sidecar.logs("drain")] == ["delay", "closing"]


def test_events_outlive_an_outage_of_the_sidecar(service, proxy, api):
    """Without the sidecar the service gets no further, but loses nothing: what is kept is the service's own matter."""
    port = free_port()
    s = service("after.py", HTTP_PROXY=f"http://127.0.0.1:{port}")
    status, body = s.ask("/price/apple")
    assert status == 502 and body["error"].startswith("no answer: ClientProxyConnectionError")
    assert s.ask("/events", "POST", "late")[0] == 202
    time.sleep(0.2)
    assert s.ask("/status")[1] == {"taken": 1, "delivered": 0}
    proxy(listen=f"127.0.0.1:{port}")
    until(lambda: s.ask("/status")[1] == {"taken": 1, "delivered": 1}, 4, "the event is delivered")
    assert [event["came"] for event in api.ask("/inbox")[1].values()] == [2]


def test_what_after_does_without():
    """The example's point, kept true: the code around one call is a fraction of what it was."""
    def lines(name):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as stream:
            return [line for line in stream.read().split("\n") if line.strip() and not line.strip().startswith("#")]
    before, after = lines("before.py"), lines("after.py")
    assert len(before) - len(after) >= 30
    for word in ("sleep", "Retry-After", "attempt", "random", "Semaphore"):
        assert word not in "\n".join(after)
