"""Runs a command on a terminal of 100 columns and 30 rows and keeps all that it writes, byte for byte.

Usage: record.py FILE COMMAND [ARGUMENT...]
"""

import fcntl
import os
import pty
import struct
import sys
import termios


def main() -> int:
    path, command = sys.argv[1], sys.argv[2:]
    pid, master = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8", COLUMNS="100", LINES="30")
        os.execvp(command[0], command)
    with open(path, "wb") as file:
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            if not chunk:
                break
            file.write(chunk)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
