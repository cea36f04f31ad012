"""A name server that answers what a test says, over UDP."""
import socket
import threading
import time

from dnslib import AAAA, QTYPE, RCODE, RR, A, DNSRecord


class DNSStub:
    """answers: {name: {"A": [...], "AAAA": [...], "ttl": seconds}}, or for a name one of "nxdomain", "servfail",
    "refused", "silent", or a function(query type name, n-th query for that name) that gives one of these."""

    def __init__(self, answers=None):
        self.answers = dict(answers or {})
        self.queries = []  # (instant, name, type)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.05)
        self.port = self.socket.getsockname()[1]
        self.stopping = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def policy(self):
        """For the policy file's `dns` section."""
        return {"servers": [f"127.0.0.1:{self.port}"]}

    def n(self, name, kind=None):
        return len([1 for _, n, k in self.queries if n == name and kind in (None, k)])

    def _serve(self):
        while not self.stopping:
            try:
                data, peer = self.socket.recvfrom(4096)
            except TimeoutError:
                continue
            except OSError:
                return
            answer = self._answer(DNSRecord.parse(data))
            if answer is not None:
                self.socket.sendto(answer.pack(), peer)

    def _answer(self, query):
        name, kind = str(query.q.qname).rstrip("."), QTYPE[query.q.qtype]
        self.queries.append((time.monotonic(), name, kind))
        entry = self.answers.get(name.lower(), "nxdomain")
        if callable(entry):
            entry = entry(kind, self.n(name, kind))
        reply = query.reply()
        if entry == "silent":
            return None
        if isinstance(entry, str):
            reply.header.rcode = getattr(RCODE, {"nxdomain": "NXDOMAIN", "servfail": "SERVFAIL", "refused": "REFUSED"}[entry])
            return reply
        for address in entry.get(kind, []):
            reply.add_answer(RR(query.q.qname, query.q.qtype, ttl=entry.get("ttl", 60),
                                rdata=A(address) if kind == "A" else AAAA(address)))
        return reply

    def stop(self):
        self.stopping = True
        self.thread.join(2)
        self.socket.close()
