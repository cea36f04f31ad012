"""A certificate authority for one test run, and the certificates it gives out."""
import os
import ssl
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    def __init__(self, folder):
        self.folder = str(folder)
        self.ca, self.key = os.path.join(self.folder, "ca.pem"), os.path.join(self.folder, "ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=Evenkeel test authority", "-keyout", self.key, "-out", self.ca)

    def certificate(self, name, names=("DNS:localhost", "IP:127.0.0.1"), days=2, client=False):
        """(certificate file, key file), signed by this authority."""
        base = os.path.join(self.folder, name)
        if os.path.exists(base + ".pem"):
            return base + ".pem", base + ".key"
        with open(base + ".ext", "w", encoding="utf-8") as stream:
            stream.write("subjectAltName=" + ",".join(names) + "\n" if names else "")
            stream.write("extendedKeyUsage=" + ("clientAuth" if client else "serverAuth") + "\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-keyout", base + ".key", "-out", base + ".csr")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial",
                "-days", str(days), "-extfile", base + ".ext", "-out", base + ".pem")
        return base + ".pem", base + ".key"

    def server(self, name="localhost", names=("DNS:localhost", "IP:127.0.0.1"), client_ca=False):
        """An SSLContext for an Origin."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate(name, names))
        if client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context
