"""Runs a command that inherits many descriptors, and that may open few more.

Arguments: how many it inherits, the limit, the command.
"""

import os
import resource
import sys

for _ in range(int(sys.argv[1])):
    os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
os.execv(sys.argv[3], sys.argv[3:])
