"""What tests start ends with them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import subprocess, time
from tests.service.support.guards import Guard
for _ in range(2):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    guard = Guard.of_group(child.pid)
    print(child.pid, flush=True)
    time.sleep(0.5)
    if _ == 0:
        guard.release()
time.sleep(600)
"""


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_test_leaves_no_server_behind():
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tests:  # noqa: S603 - our own words
        released, guarded = int(tests.stdout.readline()), int(tests.stdout.readline())
        tests.kill()
    deadline = time.monotonic() + 30
    while is_alive(guarded) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(guarded) and is_alive(released)
    os.kill(released, signal.SIGKILL)
