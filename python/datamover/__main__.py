# SPDX-License-Identifier: BSD-3-Clause
"""The command `datamover`: selects the command line."""

from __future__ import annotations

import io
import os
import sys

from datamover import interruption


def main() -> None:
    """Run the command line; output that cannot be written, on a full disk, is a one-line error."""
    _replace_what_cannot_be_encoded()
    try:
        try:
            _run()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        from datamover.terminal import print_error

        print_error(error)
        _drop_output()
        sys.exit(1)


def _replace_what_cannot_be_encoded() -> None:
    """Print "?" for characters missing in the encoding, such as µ in ASCII, so numbers stay."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")


def _drop_output() -> None:
    """Keep Python from printing again, at its end, what cannot be printed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _run() -> None:
    """Run the command of the arguments; `move` loads as little as possible."""
    interruption.end_without_words()  # nothing has begun that would need a message
    if sys.argv[1:2] == ["move"]:
        from datamover import move_command

        sys.exit(move_command.run(sys.argv[2:]))
    from datamover import cli

    interruption.raise_again()
    cli.main()


if __name__ == "__main__":
    main()
