#!/usr/bin/env python3
"""CPU time per request and throughput on loopback: Evenkeel, and beside it HAProxy when that is installed; then the same
for TLS towards the origin, with nginx too.

    bench.py [--seconds 2] [--rounds 3] [--connections 64] [--only plain|tls]

The proxy runs alone on core 0, client (wrk) and origin (nginx) share core 1. The main figure is the proxy's CPU
milliseconds per 1000 requests: it holds also when the other core is what limits the rate. Everything listens on
loopback ports, lives in a temporary folder and is stopped at the end. Each load run is bounded in time.
"""
import argparse
import os
import shutil
import statistics
import sys
import tempfile

import tls
from tools import BIN, LOAD_CORE, PROXY_CORE, cpu_ms, free_port, load, nginx_command, nginx_user, start, stop, write_conf

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


def plain(arguments, folder):
    for name, size in (("1k", 1024), ("100k", 102400)):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(b"x" * size)
    origin_port = free_port()
    conf = write_conf(folder, "nginx.conf", NGINX, d=folder, port=origin_port, user=nginx_user())
    origin = start(nginx_command(folder, conf), LOAD_CORE, origin_port)
    subjects = {"evenkeel": lambda port: [BIN, "run", "-c", write_conf(folder, "evenkeel.yaml", EVENKEEL, port=port)]}
    if shutil.which("haproxy"):
        subjects["haproxy"] = lambda port: ["haproxy", "-db", "-f",
                                            write_conf(folder, "haproxy.cfg", HAPROXY, port=port, origin=origin_port)]
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
                        total, rate, errors, _ = load(folder, port, target, arguments.connections, arguments.seconds)
                        cpu = (cpu_ms(process) - before) / total * 1000
                        results.setdefault((name, size), []).append((cpu, rate, errors))
                finally:
                    stop(process)
    finally:
        stop(origin)
    print(f"{arguments.connections} connections, medians of {arguments.rounds} rounds of {arguments.seconds} s\n")
    print(f"{'':12}{'body':>6}{'CPU ms per 1000':>18}{'requests/s':>13}{'errors':>9}")
    for (name, size), rows in results.items():
        cpu, rate = (statistics.median(row[i] for row in rows) for i in (0, 1))
        print(f"{name:12}{size:>6}{cpu:18.1f}{rate:13.0f}{sum(row[2] for row in rows):9d}")
    return sum(row[2] for (name, _), rows in results.items() if name == "evenkeel" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--only", choices=("plain", "tls"))
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    for program in ("wrk", "nginx", "taskset", "openssl"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing: tests/setup-packages.sh bench")
    n_errors = 0
    for name, run in (("plain", plain), ("tls", tls.run)):
        if arguments.only in (None, name):
            folder = tempfile.mkdtemp()
            os.chmod(folder, 0o755)
            try:
                n_errors += run(arguments, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return 1 if n_errors else 0


if __name__ == "__main__":
    sys.exit(main())
