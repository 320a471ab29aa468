"""Print texts.txt: what strerror of the installed libcurl returns for each number."""

from ctypes import CDLL, c_char_p

LIBRARY = CDLL("libcurl.so.4")


def main():
    print("# Generated with libcurl 7.88.1 by texts.py: function, first and last number, text.")
    for function in ("easy", "multi", "share", "url"):
        strerror = getattr(LIBRARY, f"curl_{function}_strerror")
        strerror.restype = c_char_p
        runs = []
        for number in range(-5, 131):
            text = strerror(number).decode()
            if runs and runs[-1][2] == text:
                runs[-1][1] = number
            else:
                runs.append([number, number, text])
        for first, last, text in runs:
            print(function, first, last, text, sep="\t")


main()
