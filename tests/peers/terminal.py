"""Runs a command whose standard error is a terminal; prints what came there as JSON."""

import json
import os
import pty
import subprocess
import sys

controller, terminal = pty.openpty()
command = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=terminal)
os.close(terminal)
seen = b""
while True:
    try:
        part = os.read(controller, 65536)
    except OSError:  # the other side has closed
        break
    if not part:
        break
    seen += part
print(json.dumps([command.wait(), seen.decode()]))
