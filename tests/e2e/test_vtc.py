"""The scripts of tests/vtc: Varnish's varnishtest plays both ends, scripted client and scripted server, of the running proxy.

A script may begin with `# policy: {...}`, the keys of the policy file; ${proxy} is the proxy's address."""
import glob
import os
import re
import shutil
import subprocess

import pytest
import yaml

from harness.proxy import ROOT, environment
from harness.tools import patience

FOLDER = os.path.join(ROOT, "tests", "vtc")
SCRIPTS = sorted(os.path.basename(path)[:-4] for path in glob.glob(os.path.join(FOLDER, "*.vtc")))


def test_the_scripts_are_there():
    assert len(SCRIPTS) >= 20


@pytest.mark.parametrize("name", SCRIPTS)
def test_vtc(proxy, tmp_path, name):
    if not shutil.which("varnishtest"):
        pytest.skip("NOT TESTED: varnishtest (Debian package varnish) is needed")
    path = os.path.join(FOLDER, name + ".vtc")
    with open(path, encoding="utf-8") as stream:
        policy = re.match(r"# policy: (.*)", stream.read())
    p = proxy(**(yaml.safe_load(policy[1]) if policy else {}))
    with p.no_leak():
        done = subprocess.run(["varnishtest", "-t", str(int(patience(10))), f"-Dproxy=127.0.0.1:{p.port}", path], capture_output=True, text=True,
                              timeout=patience(20), env=environment({"TMPDIR": str(tmp_path)}), cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
