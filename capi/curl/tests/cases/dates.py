"""Print dates.txt with the results of the installed libcurl: dates.py < dates.txt."""

import sys
from ctypes import CDLL, c_char_p, c_long, c_void_p

GETDATE = CDLL("libcurl.so.4").curl_getdate
GETDATE.restype = c_long
GETDATE.argtypes = [c_char_p, c_void_p]

for line in sys.stdin.read().splitlines():
    if line and not line.startswith("#"):
        date = line.partition("\t")[2]
        line = f"{GETDATE(date.encode(), None)}\t{date}"
    print(line)
