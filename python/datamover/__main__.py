# SPDX-License-Identifier: BSD-3-Clause
"""Which command line do the words after `datamover` belong to?"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; `move` loads as little as it can."""
    if sys.argv[1:2] == ["move"]:
        from datamover import move_command

        sys.exit(move_command.run(sys.argv[2:]))
    from datamover import cli

    cli.main()


if __name__ == "__main__":
    main()
