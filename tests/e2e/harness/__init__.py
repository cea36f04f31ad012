"""What the end-to-end tests are made of: the proxy as a process, scripted origins, raw clients, a DNS stub, nginx."""
from .blackhole import Blackhole
from .checks import problem
from .client import Client, Incomplete, Response
from .dnsstub import DNSStub
from .nginx import Nginx
from .origin import Origin, close, delay, hold, raw, reply, rst
from .proxy import BIN, Proxy, run_evenkeel
from .tls import Authority, SServer, stamp
from .tools import SLOWNESS, at_most, free_port, patience, took, until

__all__ = ["Authority", "BIN", "Blackhole", "Client", "DNSStub", "Incomplete", "Nginx", "Origin", "Proxy", "Response", "SLOWNESS", "SServer",
           "at_most", "close", "delay", "free_port", "hold", "patience", "problem", "raw", "reply", "rst", "run_evenkeel", "stamp", "took", "until"]
