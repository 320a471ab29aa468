"""Starts a program with sockets, as a service manager does.

Arguments: the sockets, separated by commas, each NAME=tcp, NAME=file (which does not listen) or
NAME=PATH of a Unix socket; what to say in LISTEN_FDS, or nothing for the truth; the program.
"""

import fcntl
import os
import socket
import sys

sockets, count, program = sys.argv[1].split(","), sys.argv[2], sys.argv[3:]
high = []
for spec in sockets:
    kind = spec.split("=", 1)[1]
    if kind == "file":
        high.append(fcntl.fcntl(os.open("/dev/null", os.O_RDONLY), fcntl.F_DUPFD, 100))
        continue
    if kind == "tcp":
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(kind)
    listener.listen()
    high.append(fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD, 100))
for at, descriptor in enumerate(high):
    os.dup2(descriptor, 3 + at, inheritable=True)
    os.set_inheritable(descriptor, False)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = count or str(len(sockets))
os.environ["LISTEN_FDNAMES"] = ":".join(spec.split("=", 1)[0] for spec in sockets)
if count:
    del os.environ["LISTEN_FDNAMES"]
os.execv(program[0], program)
