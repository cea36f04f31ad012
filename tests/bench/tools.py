"""What the benchmarks share: programs pinned to a core, load by wrk, CPU time."""
import os
import re
import signal
import socket
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("EVENKEEL_BIN") or os.path.join(ROOT, "build", "evenkeel")
CORES = sorted(os.sched_getaffinity(0))
PROXY_CORE, LOAD_CORE = CORES[0], CORES[-1]
TICKS = os.sysconf("SC_CLK_TCK")

LUA = 'wrk.path = "{target}"\nrequest = function() return wrk.format("GET", "{target}") end\n'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, core, port):
    process = subprocess.Popen(["taskset", "-c", str(core), *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    for _ in range(200):
        if process.poll() is not None:
            sys.exit(f"{command[0]} ended with code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.02)
    sys.exit(f"{command[0]} did not come up")


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_ms(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stream:
        fields = stream.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / TICKS


def load(folder, port, target, connections, seconds):
    """(requests, requests per second, errors, bytes read) of one run of wrk."""
    script = os.path.join(folder, "wrk.lua")
    with open(script, "w", encoding="ascii") as stream:
        stream.write(LUA.format(target=target))
    out = subprocess.run(["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
                          f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True).stdout
    total = int(re.search(r"(\d+) requests in", out)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", out)))
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    n, unit = re.search(r"([\d.]+)([KMG]?)B read", out).groups()
    return total, rate, errors + (int(bad[1]) if bad else 0), float(n) * 1024 ** " KMG".index(unit or " ")


def write_conf(folder, name, text, **values):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text.format(**values))
    return path


def nginx_command(folder, conf):
    return ["nginx", "-p", folder, "-c", conf, "-e", f"{folder}/error.log"]


def nginx_user():
    """nginx drops its rights to a user who may not read the folder."""
    return "user root;" if os.getuid() == 0 else ""
