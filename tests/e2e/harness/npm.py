"""The npm packages of tests/e2e/node, installed once under build/ exactly as locked, no script of theirs run."""
import fcntl
import os
import shutil
import subprocess

import pytest

from .proxy import ROOT

SOURCE = os.path.join(ROOT, "tests", "e2e", "node")
CACHE = os.path.join(ROOT, "build", "e2e-node")


def node_modules():
    """The folder for NODE_PATH; skips the test where the packages can't be had."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("NOT TESTED: node and npm are needed for undici")
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other parts of the run wait
        with open(os.path.join(SOURCE, "package-lock.json"), encoding="utf-8") as stream:
            wanted = stream.read()
        stamp = os.path.join(CACHE, "installed")
        if not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != wanted:
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(os.path.join(SOURCE, name), CACHE)
            done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1"],
                                  cwd=CACHE, capture_output=True, text=True, timeout=35)
            if done.returncode != 0:
                pytest.skip("NOT TESTED: npm could not install undici: " + done.stderr.strip()[-300:])
            with open(stamp, "w", encoding="utf-8") as stream:
                stream.write(wanted)
    return os.path.join(CACHE, "node_modules")
