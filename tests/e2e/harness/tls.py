"""A certificate authority for one test run, the certificates it gives out, and `openssl s_server` as an origin."""
import os
import ssl
import subprocess
import threading
import time
import zlib

from .tools import free_port, until

# `openssl ca` takes any dates, which `openssl x509` does not.
CA_CONF = """[ca]
default_ca = d
[d]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
policy = p
unique_subject = no
[p]
commonName = optional
"""


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def stamp(days):
    """An instant so many days from now: (as openssl wants it, as the proxy prints it)."""
    at = time.gmtime(time.time() + days * 86400)
    return time.strftime("%Y%m%d%H%M%SZ", at), time.strftime("%Y-%m-%dT%H:%M:%SZ", at)


def new_key(subject, key, out, *more):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject, "-keyout", key, "-out", out, *more)


class Authority:
    def __init__(self, folder, name="Evenkeel test authority", parent=None):
        """A root, or under parent an intermediate."""
        self.folder, self.name = str(folder), name
        self.ca, self.key = os.path.join(self.folder, "ca.pem"), os.path.join(self.folder, "ca.key")
        os.makedirs(self.folder, exist_ok=True)
        if parent is None:
            new_key(f"/CN={name}", self.key, self.ca, "-x509", "-days", "2")
        else:
            new_key(f"/CN={name}", self.key, self.ca + ".csr")
            parent.sign(self.ca + ".csr", self.ca, "basicConstraints=critical,CA:TRUE\n", -1, 2)

    def sign(self, request, out, extensions, starts, ends):
        for name, text in (("ext", extensions), ("conf", CA_CONF.format(folder=self.folder)), ("index", "")):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as stream:
                stream.write(text)
        openssl("ca", "-batch", "-config", os.path.join(self.folder, "conf"), "-in", request, "-out", out, "-notext", "-create_serial",
                "-cert", self.ca, "-keyfile", self.key, "-md", "sha256", "-startdate", stamp(starts)[0], "-enddate", stamp(ends)[0],
                "-extfile", os.path.join(self.folder, "ext"))

    def certificate(self, name, names=("DNS:localhost", "IP:127.0.0.1"), days=2, client=False, starts=-1, renew=False):
        """(certificate file, key file), signed by this authority; valid from starts to days, counted from now.
        What has been made once is given again, unless it is to be renewed: then with a new key."""
        base = os.path.join(self.folder, name + "-%08x" % zlib.crc32(repr((names, days, client, starts)).encode()))
        if os.path.exists(base + ".pem") and not renew:
            return base + ".pem", base + ".key"
        extensions = "subjectAltName=" + ",".join(names) + "\n" if names else ""
        extensions += "extendedKeyUsage=" + ("clientAuth" if client else "serverAuth") + "\n"
        new_key(f"/CN={name}", base + ".key", base + ".csr")
        self.sign(base + ".csr", base + ".pem", extensions, starts, days)
        return base + ".pem", base + ".key"

    def self_signed(self, name, names=("DNS:localhost", "IP:127.0.0.1")):
        base = os.path.join(self.folder, name)
        new_key(f"/CN={name}", base + ".key", base + ".pem", "-x509", "-days", "2", "-addext", "subjectAltName=" + ",".join(names))
        return base + ".pem", base + ".key"

    def server(self, name="localhost", names=("DNS:localhost", "IP:127.0.0.1"), client_ca=False):
        """An SSLContext for an Origin."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate(name, names))
        if client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


class SServer:
    """`openssl s_server` with further arguments of the test's own: -www answers every request with a page of its own."""

    def __init__(self, pair, *arguments):
        self.port = free_port()
        self.output = b""
        self.process = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{self.port}", "-cert", pair[0], "-key", pair[1],
                                         *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.wait_output(b"ACCEPT\n")

    def _read(self):
        while data := self.process.stdout.read1(65536):
            self.output += data

    def wait_output(self, text):
        def has_come():
            assert self.process.poll() is None or text in self.output, self.output
            return text in self.output
        until(has_come, 5, f"{text} from openssl s_server")

    def type(self, text):
        """As if at its terminal."""
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def url(self, path="/", host="localhost"):
        return f"http://{host}:{self.port}{path}"

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(2)
        self.process.stdin.close()
        self.process.stdout.close()
