# SPDX-License-Identifier: BSD-3-Clause
"""Saved plans: loaded unchanged, and any other content is rejected."""

import base64
import os
import stat
import zlib

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
    boxes = all(isinstance(x, dm.BlockCyclic | dm.FloorPlan) for x in (source, destination))
    if boxes and draw(st.booleans()):
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
    with pytest.raises(dm.errors.InvalidArgument):
        dm.MotionPlan.from_bytes(bytes(saved))


@given(plans(), st.data())
def test_cut_bytes_are_refused(plan, data):
    saved = plan.to_bytes()
    with pytest.raises(dm.errors.InvalidArgument):
        dm.MotionPlan.from_bytes(saved[: data.draw(st.integers(0, len(saved) - 1))])
    with pytest.raises(dm.errors.InvalidArgument):
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
    except dm.errors.InvalidArgument:
        return
    assert dm.MotionPlan.from_bytes(again.to_bytes()) == again


def test_files(tmp_path):
    rows = dm.BlockCyclic((40, 30), "(block, *)", nprocs=3)
    plan = dm.redistribute(rows, dm.BlockCyclic((40, 30), "(*, cyclic(4))", nprocs=3))
    path = str(tmp_path / "rows_to_columns.plan")
    plan.save(path)
    assert dm.MotionPlan.load(path) == plan
    assert [p.name for p in tmp_path.iterdir()] == ["rows_to_columns.plan"]
    with pytest.raises(dm.errors.IoFailed, match="missing"):
        dm.MotionPlan.load(str(tmp_path / "missing.plan"))
    with pytest.raises(dm.errors.IoFailed, match="nowhere"):
        plan.save(str(tmp_path / "nowhere" / "a.plan"))
    for no_file in (tmp_path, "/dev/zero"):
        with pytest.raises(dm.errors.IoFailed, match="regular"):
            dm.MotionPlan.load(str(no_file))
    (tmp_path / "text.plan").write_text("no plan at all")
    with pytest.raises(dm.errors.InvalidArgument):
        dm.MotionPlan.load(str(tmp_path / "text.plan"))


def test_a_plan_of_an_earlier_format_is_rejected():
    """No release wrote one. It would mean another move: bounding boxes onto each other."""
    saved = "c-nLE^$!d1@iSs%fB+^OG&+EZbD+_TXzB==%YsJ3#CgzYMglac?j+TILSSV@s?9p*MGpaGiU$Y"
    with pytest.raises(dm.errors.InvalidArgument, match="another format"):
        dm.MotionPlan.from_bytes(zlib.decompress(base64.b85decode(saved)))


def small_plan():
    rows = dm.BlockCyclic((40, 30), "(block, *)", nprocs=3)
    return dm.redistribute(rows, dm.BlockCyclic((40, 30), "(*, cyclic(4))", nprocs=3))


def test_saving_follows_no_link_and_touches_no_other_file(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    names = ["plan", "plan.unfinished", "plan.tmp"]
    for name in names:
        (tmp_path / name).symlink_to(victim)
    small_plan().save(str(tmp_path / "plan"))
    assert victim.read_text() == "untouched"
    assert not (tmp_path / "plan").is_symlink()
    assert dm.MotionPlan.load(str(tmp_path / "plan")) == small_plan()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names, "victim"])
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "plan").stat().st_mode) == 0o666 & ~umask


def test_saving_removes_what_a_killed_process_left(tmp_path):
    (tmp_path / ".plan.0123456789ab.partial").write_text("half a plan")
    small_plan().save(str(tmp_path / "plan"))
    assert [p.name for p in tmp_path.iterdir()] == ["plan"]


def test_nothing_is_left_of_a_plan_that_cannot_be_saved(tmp_path):
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "inside").write_text("")
    with pytest.raises(dm.errors.IoFailed, match="plan"):
        small_plan().save(str(tmp_path / "plan"))
    assert [p.name for p in tmp_path.iterdir()] == ["plan"]


def test_a_text_of_other_characters_is_refused():
    words = np.frombuffer(small_plan().to_bytes(), "<u8").copy()
    at = bytes(np.minimum(words, 255).astype("u1")).index(b"(block, *)")
    words[at] = 0xFF
    words[-1] = checksum(words[:-1])
    with pytest.raises(dm.errors.InvalidArgument, match="ASCII"):
        dm.MotionPlan.from_bytes(words.tobytes())
