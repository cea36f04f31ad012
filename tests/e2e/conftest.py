"""Fixtures and the time limit of the end-to-end tests."""
import signal

import pytest

from harness import SLOWNESS, Authority, Blackhole, DNSStub, Nginx, Origin, Proxy, SServer

# A test that hangs must not hang the run.
LIMIT_SECONDS = 40


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", help="run the i-th of n parts of the test files, as i/n")
    parser.addoption("--again-file", help="write the tests here that failed and may be run once more, alone")


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): this test may take so long")


def pytest_collection_modifyitems(config, items):
    part, of = map(int, config.getoption("--shard").split("/"))
    if of > 1:
        kept = [item for number, item in enumerate(items) if number % of == part - 1]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


# What no second run can excuse: the program itself complained, or ended in the middle.
INEXCUSABLE = ("Sanitizer", "runtime error", "broken invariant", "that is no log line", "ended with code -")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    path = item.config.getoption("--again-file")
    if path and report.failed and not any(word in report.longreprtext for word in INEXCUSABLE):
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(f"{item.path}::{item.nodeid.partition('::')[2]}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    mark = item.get_closest_marker("limit")
    seconds = int((mark.args[0] if mark else LIMIT_SECONDS) * max(1, SLOWNESS))

    def ring(*_):
        raise AssertionError(f"the test was not over in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Makers:
    """Makes things for a test and stops them all after it; the first complaint of a stop fails the test."""

    def __init__(self):
        self.made = []

    def add(self, thing):
        self.made.append(thing)
        return thing

    def stop(self):
        faults = []
        for thing in reversed(self.made):
            try:
                thing.stop()
            except Exception as fault:  # noqa: BLE001 - all are stopped first
                faults.append(fault)
        if faults:
            raise faults[0]


@pytest.fixture
def makers():
    made = Makers()
    yield made
    made.stop()


@pytest.fixture
def proxy(makers, tmp_path_factory):
    """proxy(defaults={...}, upstreams=[...], ...) starts one; keyword arguments are the keys of the policy file."""
    def make(text=None, arguments=(), env=None, builtin=False, **policy):
        folder = tmp_path_factory.mktemp("proxy")
        if builtin:
            policy = None
            arguments = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments]
        elif text:
            policy = None
        made = makers.add(Proxy(folder, policy, text, arguments, env, start=False))
        made.start()
        return made
    return make


@pytest.fixture
def origin(makers):
    """origin(reply(503), reply(200)) or origin(on_connection=...) starts one."""
    return lambda *steps, **more: makers.add(Origin(*steps, **more))


@pytest.fixture
def dns(makers):
    return lambda answers=None: makers.add(DNSStub(answers))


@pytest.fixture
def blackhole(makers):
    """A port where connecting takes for ever."""
    return makers.add(Blackhole())


@pytest.fixture
def nginx(makers, tmp_path_factory):
    return lambda **more: makers.add(Nginx(tmp_path_factory.mktemp("nginx"), **more))


@pytest.fixture
def s_server(makers):
    return lambda *arguments: makers.add(SServer(*arguments))


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))
