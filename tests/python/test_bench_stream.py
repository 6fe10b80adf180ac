# SPDX-License-Identifier: BSD-3-Clause
"""`bench stream`: runs every contender, with several processes at both ends."""

import json

import pytest
from typer.testing import CliRunner

from datamover.bench.command import app
from datamover.bench.stream import parse
from datamover.errors import InvalidArgument

CONTENDERS = {
    *("datamover", "datamover:into", "datamover:tcp", "datamover:tcp:into", "datamover:tcp:2"),
    *("sockets:packed", "sockets:contiguous", "shared:packed", "gather", "sst"),
    *("memcpy", "memcpy:checked"),
}


@pytest.mark.parametrize(("senders", "consumers"), [(2, 1), (1, 2)])
def test_every_contender_has_a_row(tmp_path, senders, consumers):
    place, picture = tmp_path / "rows.json", tmp_path / "rows.png"
    words = f"stream -n {senders} --consumers {consumers} --seconds 0 --case 64K-1024"
    ran = CliRunner().invoke(app, [*words.split(), "--json", str(place), "--png", str(picture)])
    assert ran.exit_code == 0, ran.output
    found = json.loads(place.read_text())
    left_out = {note["contender"] for note in found["left_out"]}
    assert left_out <= {"sst"}  # a package that need not be installed
    rows = {row["contender"]: row for row in found["rows"]}
    assert set(rows) == CONTENDERS - left_out
    for row in rows.values():
        assert row["seconds"] > 0
        assert ("share_in_send" in row) == row["contender"].startswith("datamover")
        assert 0 <= row.get("share_in_send", 0) < 1
        assert row["bytes"] == max(senders, consumers) * row["message_bytes"]
        assert (row["processes"], row["consumers"]) == (senders, consumers)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["", "64K", "64K-", "64K-0", "64K-12", "1K-1000", "64-64", "1G-8"])
def test_names_that_are_not_cases(name):
    with pytest.raises(InvalidArgument, match="is not a case"):
        parse(name)
