"""Print urls.txt with the results of the installed libcurl: urls.py < urls.txt.

Run it in a locale with UTF-8, such as C.UTF-8. The verbs are described in urls.txt.
"""

import re
import sys
from ctypes import CDLL, byref, c_char_p, c_int, c_uint, c_void_p, string_at

PARTS = "url scheme user password options host port path query fragment zoneid".split()
SHOWN = PARTS[1:] + PARTS[:1]
FLAGS = (
    "DEFAULT_PORT NO_DEFAULT_PORT DEFAULT_SCHEME NON_SUPPORT_SCHEME PATH_AS_IS DISALLOW_USER "
    "URLDECODE URLENCODE APPENDQUERY GUESS_SCHEME NO_AUTHORITY ALLOW_SPACE PUNYCODE"
).split()

LIBRARY = CDLL("libcurl.so.4")
LIBRARY.curl_url.restype = c_void_p
LIBRARY.curl_url_set.argtypes = [c_void_p, c_int, c_char_p, c_uint]
LIBRARY.curl_url_get.argtypes = [c_void_p, c_int, c_void_p, c_uint]


def flags_of(names):
    return sum(1 << FLAGS.index(name) for name in names.split("+") if name != "-")


def bytes_of(text):
    text = b"" if text == '""' else text.encode()
    return re.sub(rb"\\x(..)", lambda code: bytes.fromhex(code[1].decode()), text)


def text_of(data):
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}" for b in data) or '""'


def get(url, part, flags):
    text = c_void_p()
    code = LIBRARY.curl_url_get(url, PARTS.index(part), byref(text), flags)
    return f"[{code}]" if code else text_of(string_at(text.value))


def run(url, line):
    verb, *rest = line.split(" ", 2)
    if verb == "get":
        return get(url, rest[0], flags_of(rest[1]))
    if verb == "clear":
        return f"[{LIBRARY.curl_url_set(url, PARTS.index(rest[0]), None, 0)}]"
    if verb in PARTS:
        text = bytes_of(rest[1])
        return f"[{LIBRARY.curl_url_set(url, PARTS.index(verb), text, flags_of(rest[0]))}]"
    flags, shown = (flags_of(names) for names in rest[0].split("/"))
    code = LIBRARY.curl_url_set(url, 0, bytes_of(rest[1]), flags)
    return f"[{code}]" if code else " | ".join(get(url, part, shown) for part in SHOWN)


def main():
    url = LIBRARY.curl_url()
    for line in sys.stdin.read().splitlines():
        if line.startswith("= "):
            continue
        print(line)
        if line.startswith("parse ") or not line:
            url = LIBRARY.curl_url()
        if line and not line.startswith("#"):
            print("=", run(url, line))


main()
