#!/usr/bin/env python3
"""Does the unit's SystemCallFilter let through all that the program does? Asked without systemd's help: the program is traced
while it serves, reloads, hands over to a new process and drains, and end-to-end tests run under the trace as well.

    syscalls.py UNIT PROGRAM FOLDER      FOLDER: for traces
"""
import glob
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def expand(name, seen=None):
    """The calls of a set of systemd's, sets within sets."""
    said = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    calls = set()
    for line in said.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            calls |= expand(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def allowed_by(unit):
    allowed = set()
    with open(unit, encoding="utf-8") as stream:
        lines = re.findall(r"^SystemCallFilter=(~?)(.*)$", stream.read(), re.M)
    assert lines and not lines[0][0], "the first filter must be a list of what is allowed"
    for tilde, words in lines:
        for word in words.split():
            calls = expand(word) if word.startswith("@") else {word}
            allowed = allowed - calls if tilde else allowed | calls
    return allowed


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(what, check, seconds=10):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def one_life(program, folder):
    """Serve, reload, hand over, drain: the unit's own life."""
    port, admin = free_port(), free_port()
    policies, trace, log = (os.path.join(folder, name) for name in ("life.yaml", "life.trace", "life.log"))
    with open(policies, "w", encoding="utf-8") as stream:
        stream.write(f"watch: on\nlisten: [127.0.0.1:{port}, unix:{folder}/life.sock]\nadmin: 127.0.0.1:{admin}\n")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(folder + "/notify")
    with open(log, "wb") as stream:
        process = subprocess.Popen(["strace", "-f", "-qq", "-o", trace, program, "run", "-c", policies], stderr=stream,
                                   env={**os.environ, "NOTIFY_SOCKET": folder + "/notify", "WATCHDOG_USEC": "200000"})
    try:
        def said(text):
            with open(log, encoding="utf-8") as lines:
                return text in lines.read()

        def pids():
            with open(log, encoding="utf-8") as lines:
                return [int(pid) for pid in re.findall(r'"event":"start".*?"pid":(\d+)', lines.read())]

        wait_for("start", lambda: said('"role":"proxy"'))
        for path in "/metrics", "/upstreams", "/config":
            with socket.create_connection(("127.0.0.1", admin)) as client:
                client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path.encode())
                assert b" 200 " in client.makefile("rb").readline()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET http://localhost:%d/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % admin)
            assert b" 200 " in client.makefile("rb").readline()
        os.kill(pids()[0], signal.SIGHUP)
        wait_for("reload", lambda: said('"event":"reload","result":"ok"'))
        os.kill(pids()[0], signal.SIGUSR2)
        wait_for("hand-over", lambda: said("has taken over") and len(pids()) == 2)
        os.kill(pids()[1], signal.SIGTERM)
        process.wait(10)
    finally:
        manager.close()
        if process.poll() is None:
            process.kill()
    return trace


def end_to_end(program, folder):
    wrap = folder + "/wrap"
    with open(wrap, "w", encoding="utf-8") as stream:
        stream.write(f'#!/bin/sh\nexec strace -f -qq -o {folder}/e2e.$$.trace "$@"\n')
    os.chmod(wrap, stat.S_IRWXU)
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "tests/e2e/test_tls.py", "tests/e2e/test_dns.py",
                           "tests/e2e/test_tunnels.py"],
                          cwd=ROOT, env={**os.environ, "EVENKEEL_BIN": program, "EVENKEEL_WRAP": wrap, "EVENKEEL_SLOWNESS": "5"})
    # What the tests say of times under a trace is not asked here.
    assert done.returncode in (0, 1), done.returncode


def main(unit, program, folder):
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(folder + "/*"):
        os.remove(old)
    one_life(program, folder)
    end_to_end(program, folder)
    used, writable_code, families = set(), [], set()
    for file in glob.glob(folder + "/*.trace"):
        with open(file, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                # "exec" of the program itself is where a trace begins.
                found = re.match(r"^\d+ +([a-z0-9_]+)\((.*)", line)
                if found:
                    used.add(found[1])
                    if found[1] in ("mmap", "mprotect") and "PROT_WRITE" in line and "PROT_EXEC" in line:
                        writable_code.append(line.strip())
                    if found[1] == "socket":
                        families.add(found[2].split(",")[0])
    allowed = allowed_by(unit)
    assert {"read", "epoll_wait"} <= allowed and not {"mount", "reboot", "setrlimit", "chown", "ptrace"} & allowed, sorted(allowed)
    forbidden = sorted(used - allowed)
    with open(unit, encoding="utf-8") as stream:
        listed = set(re.search(r"^RestrictAddressFamilies=(.*)$", stream.read(), re.M)[1].split())
    assert not forbidden, f"the unit forbids what the program does: {forbidden}"
    assert families <= listed, f"sockets of {families - listed}"
    assert not writable_code, writable_code[:3]
    assert len(used) > 40 and "execve" in used and "accept4" in used, used
    print(f"{len(used)} system calls seen, all of them allowed; sockets of {', '.join(sorted(families))}; no memory both writable and executable")


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:4]))
