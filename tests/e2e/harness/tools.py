"""Time and ports."""
import collections
import os
import socket
import threading
import time

# How much slower than a release build the program under test is: sanitizers and valgrind. Only stretches upper bounds.
SLOWNESS = float(os.environ.get("EVENKEEL_SLOWNESS", "1"))

# What a time limit may be overrun by: the scheduling of two busy cores, not the program's own doing.
SLACK = 0.15


def patience(seconds):
    """A bound on waiting for something that should come at once."""
    return seconds * SLOWNESS


def until(condition, timeout=2.0, what="the condition"):
    """Waits until condition() is truthy and returns what it gave; fails after timeout seconds."""
    end = time.monotonic() + patience(timeout)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.005)


class Stalls(threading.Thread):
    """How late this machine is: a thread that sleeps 10 ms again and again and notes by how much it overslept."""

    TICK = 0.01

    def __init__(self):
        super().__init__(daemon=True)
        self.late = collections.deque(maxlen=10000)  # (when, seconds)
        self.start()

    def run(self):
        while True:
            start = time.monotonic()
            time.sleep(self.TICK)
            now = time.monotonic()
            if now - start > 2 * self.TICK:
                self.late.append((now, now - start - self.TICK))

    def since(self, start):
        return sum(seconds for when, seconds in list(self.late) if when >= start)


stalls = Stalls()


def at_most(seconds, since, slack=SLACK):
    """The upper bound for what began at `since`: stretched for a slow program and by what the machine itself was late."""
    return seconds * (1 if SLOWNESS == 1 else 1 + SLOWNESS / 10) + slack * SLOWNESS + stalls.since(since)


class took:
    """with took(0.5, 0.7): the block must last at least 0.5 s and at_most 0.7 s."""

    def __init__(self, at_least, at_most):
        self.at_least, self.at_most = at_least, at_most

    def __enter__(self):
        self.start = time.monotonic()
        return self

    def __exit__(self, kind, value, trace):
        self.seconds = time.monotonic() - self.start
        if kind is None:
            assert self.at_least - 0.005 <= self.seconds <= at_most(self.at_most, self.start), \
                f"took {self.seconds:.3f} s, expected {self.at_least} to {self.at_most}"


def free_port(host="127.0.0.1"):
    """A port on which nobody listens (and which isn't handed out again soon)."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, 0))
        return probe.getsockname()[1]
