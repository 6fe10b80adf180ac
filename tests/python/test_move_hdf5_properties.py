# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 datasets of any type and creation properties: moved as h5py reads them."""

import fcntl
import itertools
import os

import h5py
import numpy as np
import pytest
import zarr
from h5py import h5d, h5p, h5s, h5t, h5z
from hdf5_samples import attributes_as_in_file, special_types
from mpi4py import MPI
from typer.testing import CliRunner

import datamover as dm
from datamover import cli
from datamover.files import hdf5, hdf5_chunks, hdf5_format, hdf5_types, move

FILTERS = {
    "none": (),
    "shuffle": ("shuffle",),
    "gzip": ("deflate",),
    "both": ("shuffle", "deflate"),
    "swapped": ("deflate", "shuffle"),
    "twice": ("deflate", "deflate"),
    "checked": ("shuffle", "deflate", "fletcher32"),
    "lzf": ("lzf",),
    "nbit": ("nbit",),
    "scaled": ("scaleoffset",),
}
FILLS = ("own", "set", "undefined")
#: H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
UNFILTERED_EDGES = 2


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("DATAMOVER_TEST_SEED", "5")))


def properties_of(chunks, filters, fill, dtype, unfiltered_edges=False):
    """Make creation properties."""
    made = h5p.create(h5p.DATASET_CREATE)
    kind = h5t.py_create(np.dtype(dtype), logical=True)
    if chunks:
        made.set_chunk(chunks)
        for name in FILTERS[filters]:
            if name == "lzf":
                made.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)
            elif name == "nbit":
                made.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL)
            elif name == "scaleoffset":
                made.set_scaleoffset(h5z.SO_INT, 0)
            else:
                getattr(made, f"set_{name}")(*([4] if name == "deflate" else []))
        if unfiltered_edges:
            hdf5_types._call("H5Pset_chunk_opts", made, UNFILTERED_EDGES)
    if fill == "undefined":
        hdf5_types.set_fill_value(made, kind, None)
    elif fill == "set":
        hdf5_types.set_fill_value(made, kind, np.array(7, dtype).tobytes())
    return made


def create(file, name, kind, shape, properties, most=None):
    ends = most and tuple(h5s.UNLIMITED if n is None else n for n in most)
    space = h5s.create_simple(shape, ends)
    return h5py.Dataset(h5d.create(file.id, name.encode(), kind, space, properties))


def drawn(rng, shape, filters):
    """Draw the properties of a dataset."""
    chunks = tuple(int(rng.integers(1, n + 3)) for n in shape)
    chunked = filters != "none" or rng.random() < 0.7
    most = tuple(rng.choice([n, 2 * n, -1]) for n in shape)
    most = tuple(None if n < 0 else max(int(n), c) for n, c in zip(most, chunks, strict=True))
    chunks = tuple(min(c, n or c) for c, n in zip(chunks, most, strict=True))
    return (chunks, most) if chunked else (None, None)


@pytest.mark.parametrize(
    ("filters", "dtype"),
    [*itertools.product(sorted(FILTERS.keys() - {"scaled"}), ["<f8", ">i2", "u1", "<c8", "S3"]),
     ("scaled", ">i2"), ("scaled", "u1")],
)  # fmt: skip
def test_any_properties_are_read_as_h5py_does(tmp_path, rng, filters, dtype):
    kind = h5t.py_create(np.dtype(dtype), logical=True)
    for k, fill in itertools.product(range(2), FILLS):
        shape = tuple(int(n) for n in rng.integers(1, 14, int(rng.integers(1, 4))))
        chunks, most = drawn(rng, shape, filters)
        properties = properties_of(chunks, filters, fill, dtype, bool(rng.random() < 0.4))
        times = [h5d.FILL_TIME_NEVER, h5d.FILL_TIME_IFSET, h5d.FILL_TIME_ALLOC]
        # HDF5 refuses to store an undefined value when space is allocated.
        properties.set_fill_time(times[int(rng.integers(2 if fill == "undefined" else 3))])
        allocation = [h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_LATE, h5d.ALLOC_TIME_INCR]
        properties.set_alloc_time(allocation[int(rng.integers(3))] if k else h5d.ALLOC_TIME_DEFAULT)
        array = rng.integers(0, 3, shape).astype(dtype)
        said = {"libver": str(rng.choice(["earliest", "v110", "latest"]))}
        if rng.random() < 0.2:
            said["userblock_size"] = 512
        with h5py.File(tmp_path / "a.h5", "w", **said) as file:
            made = create(file, "u", kind, shape, properties, most)
            whole = tuple(slice(0, n) for n in shape)
            part = tuple(slice(int(rng.integers(n)), None) for n in shape)
            box = part if fill != "undefined" and rng.random() < 0.5 else whole
            made[box] = array[box]
        with h5py.File(tmp_path / "a.h5") as file:
            expected = file["u"][...]
        for output in ("b.npy", "b.h5", "b.zarr"):
            move(
                f"{tmp_path}/a.h5:/u", f"{tmp_path}/{output}", overwrite=True, check="crc32c",
                max_bytes=1 << 16,
            )  # fmt: skip
        np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), expected)
        stored = zarr.open_array(tmp_path / "b.zarr", mode="r")
        np.testing.assert_array_equal(stored[...], expected)
        with h5py.File(tmp_path / "b.h5") as file:
            np.testing.assert_array_equal(file["u"][...], expected)
            assert file["u"].id.get_type().equal(kind)
            defined = file["u"].id.get_create_plist().fill_value_defined()
            assert defined == [
                h5d.FILL_VALUE_DEFAULT, h5d.FILL_VALUE_USER_DEFINED, h5d.FILL_VALUE_UNDEFINED
            ][FILLS.index(fill)]  # fmt: skip
            if fill == "set":
                assert file["u"].fillvalue == np.array(7, dtype)[()]
                assert stored.fill_value == np.array(7, dtype)[()]


@pytest.mark.parametrize("filters", ["shuffle", "gzip", "both"])
def test_edge_chunks_that_are_stored_unfiltered(tmp_path, filters):
    array = np.arange(400.0).reshape(20, 20)
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        properties = properties_of((8, 8), filters, "own", "f8", unfiltered_edges=True)
        create(file, "u", h5t.NATIVE_DOUBLE, (20, 20), properties)[...] = array
    move(f"{tmp_path}/a.h5:/u", tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array)


def test_bytes_are_read_around_h5py_only_if_all_is_known(tmp_path, monkeypatch):
    """A property, filter, flag or driver that is not known, and what was not flushed, is h5py's."""
    array = np.arange(40.0)

    def reader():
        opened = hdf5_format.open_dataset(str(tmp_path / "a.h5"), "u")
        opened.close()
        return type(opened)

    def make(filters, **said):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            properties = properties_of((8,), filters, "own", "f8", **said)
            create(file, "u", h5t.NATIVE_DOUBLE, (40,), properties)[...] = array

    for filters in FILTERS.keys() - {"scaled"}:
        make(filters)
        is_known = filters in ("none", "shuffle", "gzip", "both")
        assert reader() is (hdf5_chunks.ChunkedDataset if is_known else hdf5.DatasetReader)
    make("gzip", unfiltered_edges=True)
    assert reader() is hdf5.DatasetReader
    make("gzip")
    for options in (None, 1, 4):  # not to be found out; of a later HDF5
        monkeypatch.setattr(hdf5_types, "chunk_options", lambda properties, found=options: found)
        assert reader() is hdf5.DatasetReader
    monkeypatch.undo()
    monkeypatch.setattr(h5py.File, "driver", "another")
    assert reader() is hdf5.DatasetReader
    monkeypatch.undo()
    with h5py.File(tmp_path / "a.h5", "a"):
        assert reader() is hdf5.DatasetReader
    assert reader() is hdf5_chunks.ChunkedDataset


def test_what_this_process_has_not_flushed_is_read(tmp_path):
    for said in ({}, {"chunks": (8,)}, {"chunks": (8,), "shuffle": True}):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            made = file.create_dataset("u", (100,), "f8", **said)
            made[...] = 1.0
            file.flush()
            made[3:9] = 7.0
            move(tmp_path / "a.h5", tmp_path / "b.npy", overwrite=True)
            loaded = dm.load(tmp_path / "a.h5", {"u": None}, comm=MPI.COMM_SELF)
            np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), made[...])
            np.testing.assert_array_equal(loaded["u"], made[...])


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_a_compressed_chunk_that_ends_too_early_is_refused(tmp_path, cut):
    """Its last four bytes are a checksum of what it decodes to, which would not be compared."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("u", data=np.arange(9.0), chunks=(9,), compression="gzip")
        _, data = made.id.read_direct_chunk((0,))
        made.id.write_direct_chunk((0,), data[:-cut])
    with pytest.raises(dm.errors.IoFailed, match=r"cannot be read in the chunk at \(0,\)"):
        move(tmp_path / "a.h5", tmp_path / "b.npy")


@pytest.mark.parametrize("output", ["b.h5", "b.h5:/u"])
@pytest.mark.parametrize("filters", [None, "none", "both"])
def test_chunks_of_zeros_are_stored_where_no_fill_value_is_defined(tmp_path, filters, output):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        chunks = filters and (4,)
        properties = properties_of(chunks, filters, "undefined", "f8")
        made = create(file, "u", h5t.NATIVE_DOUBLE, (12,), properties)
        made[...] = [0] * 8 + [3] * 4
    said = {"chunks": (4,), "compressor": "gzip"} if filters == "both" else {}
    source = tmp_path / "a.h5" if output == "b.h5" else f"{tmp_path}/a.h5:/u"
    move(source, f"{tmp_path}/{output}", check="crc32c", **said)
    with h5py.File(tmp_path / "b.h5") as file:
        found = file["u"]
        assert found[...].tolist() == [0] * 8 + [3] * 4
        assert found.chunks is None or found.id.get_num_chunks() == 3
        properties = found.id.get_create_plist()
        assert properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED


def test_elements_that_were_never_written_and_have_no_fill_value(tmp_path):
    """HDF5 does not read them: it is an error to want them, in a line."""
    for chunks in (None, (4,)):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["v"] = np.arange(3)
            create(
                file,
                "u",
                h5t.NATIVE_DOUBLE,
                (12,),
                properties_of(chunks, "none", "undefined", "f8"),
            )
        if chunks is None:
            with pytest.raises(dm.errors.IoFailed, match=r"a\.h5:/u cannot be read"):
                move(f"{tmp_path}/a.h5:/u", tmp_path / "b.npy")
        move(tmp_path / "a.h5", tmp_path / "b.h5", overwrite_group=True)
        with h5py.File(tmp_path / "b.h5") as file:
            properties = file["u"].id.get_create_plist()
            assert properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED


def make_types(path, **said):
    """Make datasets of types that NumPy has not, or only as another."""
    made = {name.decode(): kind for name, kind in special_types().items()}
    record = h5t.create(h5t.COMPOUND, 8)
    record.insert(b"bits", 1, h5t.STD_B8LE)
    record.insert(b"text", 2, made["padded"])
    made["record"] = record
    with h5py.File(path, "w") as file:
        for name, kind in made.items():
            size = kind.get_size()
            fill = bytes(range(60, 60 + size))
            properties = h5p.create(h5p.DATASET_CREATE)
            hdf5_types.set_fill_value(properties, kind, fill)
            if said:
                properties.set_chunk((3, 2))
                properties.set_shuffle()
                properties.set_deflate(4)
            made_of = create(file, name, kind, (7, 2), properties)
            values = np.frombuffer(bytes(k % 251 for k in range(1, 14 * size + 1)), f"V{size}")
            # Two rows of chunks: one with elements, one that is not there.
            rows = 3 if said else 7
            file_space, memory = made_of.id.get_space(), h5s.create_simple((rows, 2))
            file_space.select_hyperslab((0, 0), (rows, 2))
            made_of.id.write(memory, file_space, values[: 2 * rows].copy(), kind)
            made_of.attrs["of"] = name
    return made


def stored(dataset):
    """Elements as they are stored, by HDF5 itself."""
    kind = dataset.id.get_type()
    values = np.zeros(dataset.shape, f"V{kind.get_size()}")
    dataset.id.read(h5s.ALL, h5s.ALL, values, kind)
    return values


def check_stored(old, new, pick=lambda values: values):
    assert new.id.get_type().equal(old.id.get_type())
    np.testing.assert_array_equal(stored(new), pick(stored(old)))
    kind = old.id.get_type()
    fills = [hdf5_types.fill_value(held.id.get_create_plist(), kind) for held in (old, new)]
    size = 10 if kind.equal(h5t.NATIVE_LDOUBLE) else kind.get_size()  # the rest is padding
    assert fills[0][:size] == fills[1][:size]
    assert attributes_as_in_file(old) == attributes_as_in_file(new)


@pytest.mark.parametrize("said", [{}, {"chunks": (3, 2)}], ids=["contiguous", "chunks"])
def test_any_type_stays_what_it_is_in_hdf5(tmp_path, caplog, said):
    names = make_types(tmp_path / "a.h5", **said)
    move(tmp_path / "a.h5", tmp_path / "b.h5", check="crc32c")
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "b.h5") as new:
        assert list(old) == list(new)
        for name in names:
            check_stored(old[name], new[name])
            assert old[name].compression == new[name].compression
    for name in names:
        move(
            f"{tmp_path}/a.h5:/{name}", f"{tmp_path}/c.h5:/{name}", overwrite_group=True,
            axes=(1, 0), region=((1, 6), (0, 2)), check="crc32c", max_bytes=1 << 12,
        )  # fmt: skip
        with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "c.h5") as new:
            check_stored(old[name], new[name], lambda values: values[1:6].T)
        move(
            f"{tmp_path}/a.h5:/{name}", f"{tmp_path}/d.h5:/{name}", overwrite_group=True,
            chunks=(2, 2), compressor="gzip", check="crc32c",
        )  # fmt: skip
        with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "d.h5") as new:
            check_stored(old[name], new[name])
    assert caplog.records == []


@pytest.mark.parametrize("output", ["b.npy", "b.zarr", "b.raw"])
def test_types_that_become_others_are_told(tmp_path, caplog, output):
    names = make_types(tmp_path / "a.h5")
    for name, words in {
        "bits": "bitfields of 16 bits become uint16",
        "odd": "integers of 12 bits become >i2",
        "padded": None,
        "tagged": None,
    }.items():
        caplog.clear()
        move(f"{tmp_path}/a.h5:/{name}", tmp_path / output, overwrite=True)
        with h5py.File(tmp_path / "a.h5") as file:
            expected = stored(file[name]) if name == "tagged" else file[name][...]
        if output == "b.npy":
            np.testing.assert_array_equal(np.load(tmp_path / output), expected)
        said = [record.getMessage() for record in caplog.records]
        line = f"{tmp_path}/a.h5:/{name}: its {words}, as only HDF5 has such"
        assert said == ([line] if words else [])
    assert {"bits", "odd", "padded", "tagged"} <= names.keys()
    caplog.clear()
    move(f"{tmp_path}/a.h5:/bits", tmp_path / "c.npy", output_dtype="u4")
    assert caplog.records == []  # as was said


def test_types_that_numpy_does_not_have_are_refused_in_a_line(tmp_path, caplog):
    make_types(tmp_path / "a.h5")
    none = ("time", "quadruple", "wide", "three bytes")
    for name in none:
        for output in ("b.npy", "b.zarr", "b.h5:/u --dtype f4"):
            words = ["move", f"{tmp_path}/a.h5:/{name}", *f"{tmp_path}/{output}".split(" ")]
            done = CliRunner().invoke(cli.app, words)
            assert done.exit_code == 1 and done.stderr.count("\n") == 1, done.output
            assert f"a.h5:/{name} has elements of a type that NumPy does not have" in done.stderr
        with pytest.raises(
            dm.errors.Unsupported, match=f"/{name} has elements of a type that NumPy"
        ):
            dm.load(tmp_path / "a.h5", {name: None}, comm=MPI.COMM_SELF)
    assert os.listdir(tmp_path) == ["a.h5"]
    caplog.clear()
    move(tmp_path / "a.h5", tmp_path / "b.zarr")
    left_out = {w.split(":/")[1].split(" has ")[0] for w in caplog.messages if "it is left" in w}
    assert left_out >= {*none} and not left_out & {*zarr.open_group(tmp_path / "b.zarr")}


def test_values_that_numpy_does_not_have_need_not_be_wanted(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["step"] = np.arange(3.0), 7
        for name, kind in special_types().items():
            h5d.create(file.id, name, kind, h5s.create(h5s.SCALAR))
            space = h5s.create_simple((2,))
            made = h5py.h5a.create(file.id, name, kind, space)
            made.write(np.zeros(2, f"V{kind.get_size()}"), kind)
    found = dm.load(tmp_path / "a.h5", {"u": None}, comm=MPI.COMM_SELF)
    assert found["step"] == 7 and found["u"].tolist() == [0, 1, 2]


def composed(kind):
    """Give types that are made of another one."""
    record = h5t.create(h5t.COMPOUND, kind.get_size() + 5)
    record.insert(b"a", 0, h5t.STD_I8LE)
    record.insert(b"b", 3, kind)
    yield from (record, h5t.vlen_create(kind), h5t.vlen_create(record))
    yield h5t.array_create(kind, (3,))
    yield h5t.array_create(h5t.vlen_create(kind), (2,))


@pytest.mark.parametrize("name", ["bits", "time", "three bytes"])
def test_what_is_made_of_such_types_is_moved_or_refused_in_a_line(tmp_path, name):
    """As elements, and as attributes, some of which are read by their names."""
    for k, kind in enumerate(composed(special_types()[name.encode()])):
        path, space = tmp_path / f"{k}.h5", h5s.create_simple((2,))
        with h5py.File(path, "w") as file:
            file["u"] = np.arange(2.0)
            h5d.create(file.id, b"x", kind, space)
            for attribute in (b"x", b"_FillValue", b"DIMENSION_LABELS", b"CLASS", b"NAME"):
                h5py.h5a.create(file["u"].id, attribute, kind, space)
        for source in (str(path), f"{path}:/x", f"{path}:/u"):
            for output in ("b.h5", "b.npy", "b.zarr"):
                try:
                    move(
                        source, tmp_path / output, overwrite_group=output != "b.npy",
                        overwrite=True, check="crc32c",
                    )  # fmt: skip
                except dm.Error as e:
                    assert "\n" not in str(e) and source != f"{path}:/u"


def refuse(monkeypatch, path):
    """Have a file that may not be read, also by root."""

    def opened(name, *more, **said):
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied")
        return open(name, *more, **said)

    monkeypatch.setattr(hdf5, "open", opened, raising=False)


@pytest.mark.parametrize("why", ["held", "cut", "foreign", "forbidden"])
@pytest.mark.parametrize("output", ["b.h5", "b.h5:/u", "b.nc:/u", "b.NC4"])
def test_a_file_that_cannot_be_read_is_not_replaced_as_an_empty_one(
    tmp_path, monkeypatch, why, output
):
    np.save(tmp_path / "x.npy", np.ones(3))
    path = tmp_path / output.partition(":")[0]
    with h5py.File(path, "w") as file:
        file["u"], file["v"] = np.arange(4.0), np.arange(5.0)
    if why == "cut":
        path.write_bytes(path.read_bytes()[:1500])
    elif why == "foreign":
        path.write_bytes(b"CDF\x01" + bytes(100))
    elif why == "forbidden":
        refuse(monkeypatch, path)
    before = path.read_bytes()
    with open(path, "rb") as file:
        if why == "held":  # as by another program
            fcntl.flock(file, fcntl.LOCK_EX)
        for said, remedy in (({"overwrite": True}, "overwrite_group=True"), ({}, "overwrite")):
            with pytest.raises(dm.errors.IoFailed, match=remedy) as told:
                move(tmp_path / "x.npy", f"{tmp_path}/{output}", **said)
            assert str(path) in str(told.value) and "\n" not in str(told.value)
        words = "would be lost: close it in the program that has it open"
        layout = dm.BlockCyclic((3,), "(block)", nprocs=1)
        with pytest.raises(dm.errors.IoFailed, match=words):
            dm.files.open(
                f"{path}:/u", layout, comm=MPI.COMM_SELF, mode="w", dtype="f8", overwrite=True
            )
        assert path.read_bytes() == before
    move(tmp_path / "x.npy", f"{tmp_path}/{output}", overwrite_group=True)
    with h5py.File(path) as file:
        assert len(file) == 1
    assert sorted(os.listdir(tmp_path)) == sorted(["x.npy", path.name])


def test_an_empty_file_is_replaced(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    (tmp_path / "b.h5").write_bytes(b"")
    move(tmp_path / "x.npy", f"{tmp_path}/b.h5:/u", overwrite=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["u"][...].tolist() == [1, 1, 1]


def test_a_broken_value_is_not_an_absent_one(tmp_path):
    comm = MPI.COMM_SELF
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("u", data=np.arange(3.0))
    group.create_array("step", data=np.array(7))
    assert dm.load(tmp_path / "a.zarr", {"u": None}, comm=comm)["step"] == 7
    (tmp_path / "a.zarr/step/c").write_bytes(b"garbage")
    with pytest.raises(dm.errors.IoFailed, match="step cannot be read"):
        dm.load(tmp_path / "a.zarr", {"u": None}, comm=comm)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_truncated_files_are_refused_or_read_right(tmp_path, libver):
    """A file cut at any byte gives an error in a line, or the elements that were in it."""
    with h5py.File(tmp_path / "whole.h5", "w", libver=libver) as file:
        file.create_dataset("u", data=np.arange(30.0), chunks=(7,), compression="gzip")
        file["v"] = np.arange(9)
    data = (tmp_path / "whole.h5").read_bytes()
    for end in range(0, len(data), 37):
        (tmp_path / "a.h5").write_bytes(data[:end])
        for name, size in (("u", 30), ("v", 9)):
            try:
                move(f"{tmp_path}/a.h5:/{name}", tmp_path / "b.npy", overwrite=True)
            except dm.Error as e:
                assert "\n" not in str(e)
                continue
            np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), np.arange(size))


@pytest.mark.parametrize("said", [{}, {"compressor": "gzip"}])
@pytest.mark.parametrize("member", ["", ":/u"])
def test_types_that_only_files_of_later_versions_may_have_stay(tmp_path, member, said):
    few = h5t.STD_I32LE.copy()
    few.set_precision(12)
    with h5py.File(tmp_path / "a.h5", "w", libver="v110") as file:
        create(file, "u", few, (3,), h5p.create(h5p.DATASET_CREATE))
        file["u"][...] = 1
    move(f"{tmp_path}/a.h5{member}", f"{tmp_path}/b.h5{member}", **said)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["u"].id.get_type().equal(few) and file["u"][...].tolist() == [1, 1, 1]


@pytest.mark.parametrize("case", range(12))
def test_chunks_are_listed_where_hdf5_finds_them(tmp_path, case):
    """Also of datasets that grew, shrank, and begin behind a user block."""
    rng = np.random.default_rng(case)
    dims = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 20, dims))
    chunks = tuple(int(n) for n in rng.integers(1, 7, dims))
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512 * int(rng.integers(0, 2))) as file:
        options = {"compression": "gzip"} if rng.random() < 0.5 else {}
        dataset = file.create_dataset(
            "x", shape, "i4", chunks=chunks, maxshape=(None,) * dims, **options
        )
        for _ in range(3):
            lo = [int(rng.integers(0, n)) for n in dataset.shape]
            dataset[tuple(slice(a, a + 5) for a in lo)] = case + 1
            dataset.resize([int(n) for n in rng.integers(1, 20, dims)])
    with h5py.File(tmp_path / "a.h5") as file:
        dataset = file["x"]
        numbers, places = hdf5_chunks.index_of(dataset)
        if places is None:
            pytest.skip("this version of HDF5 cannot list chunks")
        listed = dict(zip(numbers.tolist(), places.tolist(), strict=True))
        grid = [-(-n // c) for n, c in zip(dataset.shape, chunks, strict=True)]
        found = {}
        for number, cell in enumerate(np.ndindex(*grid)):
            first = tuple(i * c for i, c in zip(cell, chunks, strict=True))
            info = dataset.id.get_chunk_info_by_coord(first)
            if info.byte_offset is not None:
                found[number] = [info.byte_offset, info.size, info.filter_mask]
        assert listed == found
        expected = dataset[...]
    move(f"{tmp_path}/a.h5:/x", tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), expected)
