"""TLS towards the origin: what a handshake costs, full and resumed, and what the bytes of a large body cost. Evenkeel,
HAProxy and nginx speak plain HTTP with the client and the same TLS with the same origin, whose certificate they check.
"""
import os
import shutil
import statistics
import subprocess

from tools import BIN, LOAD_CORE, PROXY_CORE, cpu_ms, free_port, load, nginx_command, nginx_user, start, stop, write_conf

BODY_BYTES = 64 << 20

# Three ports: one that keeps connections, and two that end each after its answer, with tickets and without.
ORIGIN = """daemon off; worker_processes 1; pid {d}/o.pid; error_log {d}/error.log; {user}
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {d}/b; proxy_temp_path {d}/p;
  fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
  ssl_certificate {d}/cert.pem; ssl_certificate_key {d}/cert.key; ssl_protocols TLSv1.3; root {d};
  server {{ listen 127.0.0.1:{body} ssl backlog=4096; }}
  server {{ listen 127.0.0.1:{full} ssl backlog=4096; ssl_session_tickets off; ssl_session_cache off; keepalive_timeout 0; }}
  server {{ listen 127.0.0.1:{resumed} ssl backlog=4096; ssl_session_tickets on; keepalive_timeout 0; }} }}
"""

EVENKEEL = """listen: 127.0.0.1:{port}
admin: off
log: {{level: error, access: off}}
upstreams:
  - name: o
    match: {{hosts: [127.0.0.1]}}
    tls: {{originate: on, ca_file: {d}/cert.pem}}
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
  server s 127.0.0.1:{origin} ssl verify required ca-file {d}/cert.pem sni str(localhost) verifyhost localhost
"""

NGINX = """daemon off; master_process off; worker_processes 1; pid {d}/n.pid; error_log {d}/error.log; {user}
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {d}/b; proxy_temp_path {d}/p;
  fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
  upstream o {{ server 127.0.0.1:{origin}; keepalive 64; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass https://o; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_max_temp_file_size 0;
      proxy_ssl_verify on; proxy_ssl_trusted_certificate {d}/cert.pem; proxy_ssl_name localhost; proxy_ssl_server_name on;
      proxy_ssl_protocols TLSv1.2 TLSv1.3; }} }} }}
"""


def commands(folder, origin):
    """name -> the command that starts it on a port, with that port of the origin behind it."""
    def conf(name, text):
        return lambda port: write_conf(folder, name, text, d=folder, port=port, origin=origin, user=nginx_user())
    made = {"evenkeel": lambda port: [BIN, "run", "-c", conf("evenkeel.yaml", EVENKEEL)(port)]}
    if shutil.which("haproxy"):
        made["haproxy"] = lambda port: ["haproxy", "-db", "-f", conf("haproxy.cfg", HAPROXY)(port)]
    made["nginx"] = lambda port: nginx_command(folder, conf("proxy.conf", NGINX)(port))
    return made


def run(arguments, folder):
    for name, size in (("1k", 1024), ("64m", BODY_BYTES)):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(os.urandom(1024) * (size // 1024))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", f"{folder}/cert.key",
                    "-out", f"{folder}/cert.pem"], check=True, capture_output=True)
    ports = {kind: free_port() for kind in ("full", "resumed", "body")}
    conf = write_conf(folder, "origin.conf", ORIGIN, d=folder, user=nginx_user(), **ports)
    origin = start(nginx_command(folder, conf), LOAD_CORE, ports["body"])
    results = {}
    try:
        for _ in range(arguments.rounds):
            for kind, (file, connections) in {"full": ("1k", 16), "resumed": ("1k", 16), "body": ("64m", 2)}.items():
                for name, command in commands(folder, ports[kind]).items():
                    port = free_port()
                    process = start(command(port), PROXY_CORE, port)
                    target = f"http://127.0.0.1:{ports[kind]}/{file}" if name == "evenkeel" else f"/{file}"
                    try:
                        before = cpu_ms(process)
                        total, rate, errors, n_bytes = load(folder, port, target, connections, arguments.seconds)
                        cpu = cpu_ms(process) - before
                    finally:
                        stop(process)
                    cost = n_bytes / 1048576 / (cpu / 1000) if kind == "body" else cpu / total * 1000
                    results.setdefault((name, kind), []).append((cost, rate, 0 if kind == "body" else errors))
    finally:
        stop(origin)
    table(results)
    return sum(row[2] for (name, _), rows in results.items() if name == "evenkeel" for row in rows)


def table(results):
    names = dict.fromkeys(name for name, _ in results)

    def median(name, kind, column):
        return statistics.median(row[column] for row in results[name, kind])
    print("\nTLS 1.3 towards the origin, its certificate (P-256) checked; a new connection for each request, but for the body\n")
    print(f"{'':12}{'full handshake':>30}{'resumed':>30}{'64 MiB body':>16}")
    print(f"{'':12}" + f"{'CPU ms per 1000':>18}{'per s':>12}" * 2 + f"{'MiB per CPU s':>16}{'errors':>9}")
    for name in names:
        cells = "".join(f"{median(name, kind, 0):18.0f}{median(name, kind, 1):12.0f}" for kind in ("full", "resumed"))
        errors = sum(row[2] for (of, _), rows in results.items() if of == name for row in rows)
        print(f"{name:12}{cells}{median(name, 'body', 0):16.0f}{errors:9d}")
