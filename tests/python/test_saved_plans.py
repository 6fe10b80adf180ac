# SPDX-License-Identifier: BSD-3-Clause
"""Does a saved plan come back as it was, and is anything else refused?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_plans import redistributions

import datamover as dm


@st.composite
def plans(draw):
    """Plans with terms of every kind, between layouts of every kind."""
    source, destination, axes = draw(redistributions())
    plan = dm.redistribute(source, destination, axes)
    lists = isinstance(source, dm.IndexList) or isinstance(destination, dm.IndexList)
    if not lists and draw(st.booleans()):
        for section in plan.sections():
            plan.add(section)
    if isinstance(source, dm.FloorPlan) and draw(st.booleans()):
        plan = dm.halo(source, draw(st.integers(0, 3)), periodic=draw(st.booleans()))
        plan = draw(st.sampled_from([plan, plan.reversed(), plan + plan.reversed()]))
    return plan


@given(plans())
def test_there_and_back(plan):
    again = dm.MotionPlan.from_bytes(plan.to_bytes())
    assert again == plan
    assert again.to_bytes() == plan.to_bytes()
    for rank in range(plan.nprocs):
        assert again.outgoing(rank) == plan.outgoing(rank)


@given(plans(), st.data())
def test_changed_bytes_are_refused(plan, data):
    saved = bytearray(plan.to_bytes())
    at = data.draw(st.integers(0, len(saved) - 1))
    saved[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(dm.InvalidArgument):
        dm.MotionPlan.from_bytes(bytes(saved))


@given(plans(), st.data())
def test_cut_bytes_are_refused(plan, data):
    saved = plan.to_bytes()
    with pytest.raises(dm.InvalidArgument):
        dm.MotionPlan.from_bytes(saved[: data.draw(st.integers(0, len(saved) - 1))])
    with pytest.raises(dm.InvalidArgument):
        dm.MotionPlan.from_bytes(saved + b"\0" * 8)


def checksum(words):
    """The checksum at the end of a saved plan, over 64-bit words."""
    value = 0xCBF29CE484222325
    for word in words:
        value = ((value ^ int(word)) * 0x100000001B3) % 2**64
        value ^= value >> 29
    return value


@given(plans(), st.data())
def test_lies_under_a_right_checksum_make_a_plan_or_an_error(plan, data):
    words = np.frombuffer(plan.to_bytes(), "<u8").copy()
    assert words[-1] == checksum(words[:-1])
    at = data.draw(st.integers(1, len(words) - 2))
    words[at] = data.draw(
        st.one_of(st.integers(0, 12), st.integers(2**62, 2**64 - 1), st.integers(0, 2**64 - 1))
    )
    words[-1] = checksum(words[:-1])
    try:
        again = dm.MotionPlan.from_bytes(words.tobytes())
    except dm.InvalidArgument:
        return
    assert dm.MotionPlan.from_bytes(again.to_bytes()) == again


def test_files(tmp_path):
    rows = dm.BlockCyclic((40, 30), "(block, *)", nprocs=3)
    plan = dm.redistribute(rows, dm.BlockCyclic((40, 30), "(*, cyclic(4))", nprocs=3))
    path = str(tmp_path / "rows_to_columns.plan")
    plan.save(path)
    assert dm.MotionPlan.load(path) == plan
    assert [p.name for p in tmp_path.iterdir()] == ["rows_to_columns.plan"]
    with pytest.raises(dm.IoError, match="missing"):
        dm.MotionPlan.load(str(tmp_path / "missing.plan"))
    with pytest.raises(dm.IoError, match="nowhere"):
        plan.save(str(tmp_path / "nowhere" / "a.plan"))
    (tmp_path / "text.plan").write_text("no plan at all")
    with pytest.raises(dm.InvalidArgument):
        dm.MotionPlan.load(str(tmp_path / "text.plan"))
