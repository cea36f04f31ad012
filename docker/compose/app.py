"""An application that knows nothing of retries: it calls the origin once a second, and tells what it saw.

The proxy is taken from http_proxy, as urllib does by itself.
"""
import itertools
import signal
import sys
import time
import urllib.error
import urllib.request

PATHS = ["/ok", "/flaky?n=1", "/reset?n=1", "/cut?n=1", "/slow?ms=3000&n=1", "/wait?s=1&n=1", "/status/503"]


def call(url):
    start = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            response.read()
            status, headers = response.status, response.headers
    except urllib.error.HTTPError as fault:
        status, headers = fault.code, fault.headers
    except OSError as fault:  # Evenkeel isn't up yet, or is gone
        return f"no answer: {fault}"
    return f"{status} after {headers.get('Evenkeel-Attempts', '-')} attempts, {time.monotonic() - start:.2f} s"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for number, path in enumerate(itertools.cycle(PATHS)):
        path += f"{'&' if '?' in path else '?'}key=call-{number}"
        print(f"GET {path}: {call(sys.argv[1] + path)}")
        time.sleep(1)


main()
