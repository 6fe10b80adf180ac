# SPDX-License-Identifier: BSD-3-Clause
"""Measured rates of a machine: stored, loaded and used, but not on any other machine."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datamover as dm
from datamover import _plan
from datamover.bench import relations
from datamover.machine_model import MachineModel, load, processor, save, use

COSTS = {
    "pair": 1.0,
    "block": 3.0,
    "symbol": 4.0,
    "offset": 0.7,
    "byte": 0.1,
    "tolerated_slowness": 1.2,
}
MODEL = MachineModel(processor(), {"instructions": 1e9}, COSTS)


@pytest.fixture
def own_costs():
    """Costs of this test alone."""
    before = _plan.decoding_costs()
    yield
    _plan.set_decoding_costs(**before)


def test_what_is_kept_is_read_again(tmp_path):
    path = tmp_path / "somewhere" / "model.json"
    assert load(path) is None
    save(MODEL, path)
    assert load(path) == MODEL
    assert [p.name for p in path.parent.iterdir()] == ["model.json"]
    save(dataclasses.replace(MODEL, processor="another"), path)
    assert load(path) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.pop("rates"),
        lambda kept: kept.update(more=1),
        lambda kept: kept["rates"].update(instructions="many"),
        lambda kept: kept.update(decoding_costs=None),
        lambda kept: kept.pop("format"),
    ],
)
def test_spoilt_files_are_refused(tmp_path, change):
    path = tmp_path / "model.json"
    save(MODEL, path)
    kept = json.loads(path.read_text())
    change(kept)
    path.write_text(json.dumps(kept))
    with pytest.raises(dm.errors.InvalidArgument):
        load(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_files_of_something_else_are_refused(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(dm.errors.InvalidArgument):
        load(path)


def test_import_uses_what_is_kept_and_survives_what_is_spoilt(tmp_path):
    path = tmp_path / "model.json"
    ask = "import datamover; print(datamover._plan.decoding_costs()['pair'])"

    def asked():
        told = subprocess.run(
            [sys.executable, "-c", ask],
            env=os.environ | {"DATAMOVER_MODEL": str(path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return float(told.stdout)

    usual = asked()
    save(dataclasses.replace(MODEL, decoding_costs=COSTS | {"pair": 7.5}), path)
    assert asked() == 7.5
    path.write_text("spoilt")
    assert asked() == usual


@pytest.mark.usefixtures("own_costs")
def test_the_choice_follows_the_costs():
    index = np.random.default_rng(0).permutation(5000)
    message = np.arange(5000)
    use(MODEL)
    assert dm.advanced.AddressRelation.from_pairs(index, message).encoding == "offsets"
    use(dataclasses.replace(MODEL, decoding_costs=COSTS | {"offset": 100.0}))
    relation = dm.advanced.AddressRelation.from_pairs(index, message)
    assert relation.encoding == "pairs"
    told = relation.explain()
    assert told["encoding"] == "pairs" and "irregular" in told["reason"]
    times = {name: c["decode_seconds"] for name, c in told["candidates"].items()}
    assert times["offsets"] > times["pairs"] > 0


def test_nothing_is_tried_with_too_many_elements():
    rows, columns = (dm.BlockCyclic((2**20, 2**20), f"({m})", 2) for m in ("block, *", "*, cyclic"))
    relation = dm.redistribute(rows, columns).relation(0, 1)
    assert len(relation) == 2**38
    told = relation.explain()
    assert told["encoding"] == "product" and told["candidates"] == {}
    few = dm.advanced.AddressRelation.from_pairs([3, 1, 2], [0, 1, 2])
    assert few.explain(max_elems=2)["candidates"] == {}
    assert few.explain(max_elems=3)["candidates"]


@pytest.mark.usefixtures("own_costs")
@pytest.mark.parametrize(
    "wrong", [{"pair": -1.0}, {"byte": float("nan")}, {"tolerated_slowness": 0.5}]
)
def test_costs_that_make_no_sense_are_refused(wrong):
    before = _plan.decoding_costs()
    with pytest.raises(dm.errors.InvalidArgument):
        use(dataclasses.replace(MODEL, decoding_costs=COSTS | wrong))
    with pytest.raises(dm.errors.InvalidArgument):
        use(dataclasses.replace(MODEL, decoding_costs={"pair": 1.0}))
    assert _plan.decoding_costs() == before


@given(st.lists(st.integers(0, 99), min_size=1, max_size=50))
def test_every_candidate_is_told(source):
    relation = dm.advanced.AddressRelation.from_pairs(source, np.arange(len(source)))
    told = relation.explain()
    assert told["encoding"] == relation.encoding and told["kernel"]
    for name, candidate in told["candidates"].items():
        assert candidate["nbytes"] == relation.encode(name).nbytes
        assert candidate["decode_seconds"] > 0


@pytest.mark.parametrize("name", relations.REDISTRIBUTIONS)
def test_all_relations_of_process_zero_are_small(name):
    """The paper's four redistributions, 1024²: a dictionary within 2 KB, products within 512 B."""

    def nbytes(n, encoding):
        return sum(r.encode(encoding).nbytes for r in relations.relations(name, n))

    assert sum(len(r) for r in relations.relations(name, 1024)) == 1024 * 1024 // 4
    assert nbytes(1024, "dictionary") <= min(2048, nbytes(1024, "pairs") / 1000)
    assert nbytes(1024, "product") <= 512
    assert nbytes(1 << 30, "product") == nbytes(1024, "product")
