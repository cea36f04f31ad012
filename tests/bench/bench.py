#!/usr/bin/env python3
"""CPU time per request and throughput on loopback: Evenkeel, and beside it HAProxy when that is installed.

    bench.py [--seconds 2] [--rounds 3] [--connections 64]

The proxy runs alone on core 0, client (wrk) and origin (nginx) share core 1. The main figure is the proxy's CPU
milliseconds per 1000 requests: it holds also when the other core is what limits the rate. Everything listens on
loopback ports, lives in a temporary folder and is stopped at the end. Each load run is bounded in time.
"""
import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("EVENKEEL_BIN") or os.path.join(ROOT, "build", "evenkeel")
CORES = sorted(os.sched_getaffinity(0))
PROXY_CORE, LOAD_CORE = CORES[0], CORES[-1]
TICKS = os.sysconf("SC_CLK_TCK")

NGINX = """daemon off; worker_processes 1; pid {d}/nginx.pid; error_log {d}/error.log; {user}
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {d}/b; proxy_temp_path {d}/p;
  fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
  server {{ listen 127.0.0.1:{port} backlog=4096; root {d}; }} }}
"""

EVENKEEL = """listen: 127.0.0.1:{port}
admin: off
log: {{level: error, access: off}}
defaults:
  retry: {{max_attempts: 4, budget: off}}
  pool: {{max_connections: 512, max_in_flight: 1024, max_pending: 10000, max_idle: 512}}
"""

HAPROXY = """global
  nbthread 1
  maxconn 5000
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  option http-keep-alive
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  retry-on 503 conn-failure empty-response
  retries 3
  server s 127.0.0.1:{origin}
"""

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
    """(requests, requests per second, errors) of one run of wrk."""
    script = os.path.join(folder, "wrk.lua")
    with open(script, "w", encoding="ascii") as stream:
        stream.write(LUA.format(target=target))
    out = subprocess.run(["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
                          f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True).stdout
    total = int(re.search(r"(\d+) requests in", out)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", out)))
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return total, rate, errors + (int(bad[1]) if bad else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    for program in ("wrk", "nginx", "taskset"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing: tests/setup-packages.sh bench")
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    with open(os.path.join(folder, "1k"), "wb") as stream:
        stream.write(b"x" * 1024)
    with open(os.path.join(folder, "100k"), "wb") as stream:
        stream.write(b"x" * 102400)
    origin_port = free_port()

    def conf(name, text, **values):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as stream:
            stream.write(text.format(**values))
        return path

    user = "user root;" if os.getuid() == 0 else ""
    origin = start(["nginx", "-p", folder, "-c", conf("nginx.conf", NGINX, d=folder, port=origin_port, user=user), "-e",
                    f"{folder}/error.log"], LOAD_CORE, origin_port)
    subjects = {"evenkeel": lambda port: [BIN, "run", "-c", conf("evenkeel.yaml", EVENKEEL, port=port)]}
    if shutil.which("haproxy"):
        subjects["haproxy"] = lambda port: ["haproxy", "-db", "-f", conf("haproxy.cfg", HAPROXY, port=port, origin=origin_port)]
    results = {}
    try:
        for _ in range(arguments.rounds):
            for name, command in subjects.items():
                port = free_port()
                process = start(command(port), PROXY_CORE, port)
                try:
                    for size in ("1k", "100k"):
                        target = f"/{size}" if name == "haproxy" else f"http://127.0.0.1:{origin_port}/{size}"
                        load(folder, port, target, arguments.connections, 1)
                        before = cpu_ms(process)
                        total, rate, errors = load(folder, port, target, arguments.connections, arguments.seconds)
                        cpu = (cpu_ms(process) - before) / total * 1000
                        results.setdefault((name, size), []).append((cpu, rate, errors))
                finally:
                    stop(process)
    finally:
        stop(origin)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.connections} connections, medians of {arguments.rounds} rounds of {arguments.seconds} s\n")
    print(f"{'':12}{'body':>6}{'CPU ms per 1000':>18}{'requests/s':>13}{'errors':>9}")
    for (name, size), rows in results.items():
        cpu, rate = (statistics.median(row[i] for row in rows) for i in (0, 1))
        print(f"{name:12}{size:>6}{cpu:18.1f}{rate:13.0f}{sum(row[2] for row in rows):9d}")
    return 1 if any(row[2] for (name, _), rows in results.items() if name == "evenkeel" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
