# SPDX-License-Identifier: BSD-3-Clause
"""Which command line do the words after `datamover` belong to?"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; what cannot be printed, on a full disk, is an error in one line."""
    try:
        _run()
    except OSError as error:
        from datamover import move_command

        move_command.print_error(error)
        sys.exit(1)


def _run() -> None:
    """Run what the words say; `move` loads as little as it can."""
    if sys.argv[1:2] == ["move"]:
        # Until it listens itself nothing has begun that is to be told of: no words where it was.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        from datamover import move_command

        sys.exit(move_command.run(sys.argv[2:]))
    from datamover import cli

    cli.main()


if __name__ == "__main__":
    main()
