"""Runs a command whose standard error is a terminal. Prints its status, its output, and the final
screen as JSON.

Options before the command: --columns N; --interrupt TEXT presses Ctrl-C once TEXT has come.
"""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

words = sys.argv[1:]
columns, interrupt = 120, None
while words[0] in ("--columns", "--interrupt"):
    name, value = words[:2]
    words = words[2:]
    if name == "--columns":
        columns = int(value)
    else:
        interrupt = value.encode()


def take_terminal():
    os.setsid()
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)


def screen(text):
    """The lines that are left: enough of a terminal for one line that is drawn again and again."""
    lines, row, column, at = {}, 0, 0, 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\r":
            column = 0
        elif char == "\n":
            row += 1
        elif char == "\x1b" and text[at : at + 1] == "[":
            end = at + 1
            while not text[end].isalpha():
                end += 1
            number = text[at + 1 : end]
            at = end + 1
            if text[end] == "K":
                line = lines.get(row, {})
                lines[row] = {} if number == "2" else {c: v for c, v in line.items() if c < column}
            elif text[end] == "A":
                row -= int(number or 1)
        elif char >= " ":
            if column == columns:
                row, column = row + 1, 0
            lines.setdefault(row, {})[column] = char
            column += 1
    found = []
    for row in sorted(lines):
        line = lines[row]
        found.append("".join(line.get(c, " ") for c in range(max(line, default=-1) + 1)).rstrip())
    return [line for line in found if line]


controller, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
command = subprocess.Popen(
    words, stdout=subprocess.DEVNULL, stderr=terminal, preexec_fn=take_terminal
)
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
    if interrupt and interrupt in seen:
        interrupt = None
        os.write(controller, b"\x03")
seen = seen.decode()
print(json.dumps([command.wait(), seen, screen(seen)]))
