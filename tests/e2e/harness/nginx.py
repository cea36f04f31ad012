"""A real origin: nginx in a folder of its own."""
import os
import re
import socket
import subprocess

from .tools import free_port, until

CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  default_type application/octet-stream;
  keepalive_requests 1000;
  {http}
  server {{
    listen 127.0.0.1:{port};
    root {folder}/www;
    location = /ok {{ return 200 "ok\\n"; }}
    location = /503 {{ return 503 "no\\n"; }}
    location = /empty {{ return 204; }}
    {server}
  }}
}}
"""


class Nginx:
    def __init__(self, folder, server="", http=""):
        self.folder = str(folder)
        self.port = free_port()
        os.makedirs(os.path.join(self.folder, "www"), exist_ok=True)
        os.chmod(self.folder, 0o755)
        conf = os.path.join(self.folder, "nginx.conf")
        user = "user root;" if os.getuid() == 0 else ""
        text = user + CONF.format(folder=self.folder, port=self.port, server=server, http=http)
        with open(conf, "w", encoding="utf-8") as stream:
            stream.write(text)
        self.ports = [int(port) for port in re.findall(r"listen 127\.0\.0\.1:(\d+)", text)]
        path = os.environ["PATH"] + ":/usr/sbin"
        self.process = subprocess.Popen(["nginx", "-p", self.folder, "-c", conf, "-e", f"{self.folder}/error.log"],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "PATH": path})
        until(self._is_up, 5, "nginx")

    def _is_up(self):
        assert self.process.poll() is None, open(f"{self.folder}/error.log", encoding="utf-8").read()
        try:
            for port in self.ports:  # it opens one after the other
                socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def file(self, name, data):
        with open(os.path.join(self.folder, "www", name), "wb") as stream:
            stream.write(data)
        return self.url("/" + name)

    def url(self, path="/ok"):
        return f"http://127.0.0.1:{self.port}{path}"

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
