# SPDX-License-Identifier: BSD-3-Clause
"""Moves of Zarr strings: unchanged, for any chunks and codecs; refused beyond the memory limit."""

import lzma
import os

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

import datamover as dm
from datamover.files import intend, move

pytestmark = pytest.mark.filterwarnings("ignore")  # of types that are no part of Zarr v3 yet


def texts_of(shape, seed=4):
    """Draw strings, some empty, some no ASCII, some long."""
    rng = np.random.default_rng(seed)
    kinds = ["", "a", "äö", "日本語" * 5, "long " * 200]
    return np.array(kinds, object)[rng.integers(0, len(kinds), shape)]


def make_group(path, texts, zarr_format=3, **said):
    """Make a group with strings `t`, of which the last are not written."""
    group = zarr.create_group(path, zarr_format=zarr_format)
    group.create_array("u", data=np.arange(3.0))
    made = group.create_array("t", shape=texts.shape, dtype=str, **said)
    made[...] = texts
    return made


def strings_at(path):
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return np.asarray(file["t"].asstr()[()], object)
    return np.asarray(zarr.open_array(path / "t", mode="r")[...], object)


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((), ()), ((7,), (3,)), ((5, 6), (2, 4)), ((3, 4, 5), (3, 1, 2)), ((3, 4, 5), (2, 3, 9))],
)
@pytest.mark.parametrize("output", ["b.h5", "b.zarr"])
def test_strings_of_any_shape_come_over(tmp_path, shape, chunks, output):
    texts = np.array("äb", object) if shape == () else texts_of(shape)
    make_group(tmp_path / "a.zarr", texts, chunks=chunks)
    move(tmp_path / "a.zarr", tmp_path / output, check="crc32c")
    assert np.array_equal(strings_at(tmp_path / output), texts)


V3 = zarr.codecs
CODECS = [
    (3, None), (3, V3.ZstdCodec(checksum=True)), (3, V3.GzipCodec()),
    (3, (V3.GzipCodec(), V3.Crc32cCodec())), (3, (V3.GzipCodec(), V3.ZstdCodec())),
    (3, V3.BloscCodec()),
    (2, None), (2, numcodecs.LZMA()), (2, numcodecs.BZ2()), (2, numcodecs.Zlib()),
    (2, numcodecs.LZ4()), (2, numcodecs.Blosc()), (2, numcodecs.GZip()),
    (2, numcodecs.LZMA(format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2}])),
]  # fmt: skip


def name_of(value):
    """A codec's name, the same in each process: how some print themselves depends on hashes."""
    codecs = value if isinstance(value, tuple) else [value]
    return str(value) if isinstance(value, int) else "-".join(type(c).__name__ for c in codecs)


@pytest.mark.parametrize(("zarr_format", "codec"), CODECS, ids=name_of)
def test_strings_of_any_codec_come_over(tmp_path, zarr_format, codec):
    texts = texts_of(300)
    make_group(tmp_path / "a.zarr", texts, zarr_format, chunks=(100,), compressors=codec)
    for output in ("b.zarr", "b.h5"):
        move(tmp_path / "a.zarr", tmp_path / output, check="crc32c")
        assert np.array_equal(strings_at(tmp_path / output), texts)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_that_are_not_there_stay_so(tmp_path, zarr_format):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("u", data=np.arange(3.0))
    made = group.create_array("t", shape=(9,), chunks=(2,), dtype=str, fill_value="ä")
    made[3:5] = np.array(["b", "c"], object)
    for output in ("b.zarr", "b.h5", "c.zarr"):
        other = {"zarr_format": 5 - zarr_format} if output == "c.zarr" else {}
        move(tmp_path / "a.zarr", tmp_path / output, check="crc32c", **other)
        assert list(strings_at(tmp_path / output)) == [*"äääbcääää"]


@pytest.mark.parametrize("source", ["a.h5", "a.zarr"])
@pytest.mark.parametrize("output", ["b.h5", "b.zarr"])
def test_a_chunk_of_more_strings_than_the_limit_is_refused(tmp_path, source, output):
    texts = np.array(["x" * 60_000] * 4, object)
    make_group(tmp_path / "a.zarr", texts, chunks=(2,))
    move(tmp_path / "a.zarr", tmp_path / "a.h5")
    before = sorted(p.name for p in tmp_path.iterdir())
    if (source, output) == ("a.h5", "b.h5"):
        return  # HDF5 copies
    words = rf"{source}.*t has \d+,\d+ bytes of strings in a chunk, .* limit of 100,000; allow"
    with pytest.raises(dm.errors.NoMemory, match=words):
        move(tmp_path / source, tmp_path / output, max_bytes=100_000)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    move(tmp_path / source, tmp_path / output, max_bytes=300_000)
    assert np.array_equal(strings_at(tmp_path / output), texts)


def cut(data):
    return data[:-3]


def of_more_strings(data):
    return b"\x09" + data[1:]


def of_no_text(data):
    return data.replace(b"a", b"\xff")


@pytest.mark.parametrize("damage", [cut, of_more_strings, of_no_text])
@pytest.mark.parametrize("output", ["b.zarr", "b.h5"])
def test_broken_chunks_are_named(tmp_path, damage, output):
    texts = np.array(["a", "b", "c"], object)
    make_group(tmp_path / "a.zarr", texts, chunks=(3,), compressors=None)
    chunk = tmp_path / "a.zarr/t/c/0"
    chunk.write_bytes(damage(chunk.read_bytes()))
    with pytest.raises(dm.errors.IoFailed, match=r"a\.zarr/t cannot be read in chunk c/0: "):
        move(tmp_path / "a.zarr", tmp_path / output)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_a_chunk_that_fails_among_several_leaves_nothing_at_an_address(tmp_path, local_bucket):
    address = f"{local_bucket.address}/b.zarr"
    texts = np.array([f"{k:9}" for k in range(120)], object)
    make_group(tmp_path / "a.zarr", texts, chunks=(3,), compressors=None)
    chunk = tmp_path / "a.zarr/t/c/23"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1])
    with pytest.raises(dm.errors.IoFailed, match=r"a\.zarr/t cannot be read in chunk c/23: "):
        move(tmp_path / "a.zarr", address)
    assert local_bucket.names() == []
    chunk.write_bytes(whole)
    move(tmp_path / "a.zarr", address, check="crc32c")
    move(address, tmp_path / "b.h5")
    assert np.array_equal(strings_at(tmp_path / "b.h5"), texts)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4)])
def test_a_single_array_of_strings(tmp_path, zarr_format, shape):
    words = np.resize(np.array(["", "a", "\u00e4\u00f6", "longer"], object), shape)
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=shape, chunks=tuple(min(n, 2) for n in shape), dtype=str,
        attributes={"units": "names"}, zarr_format=zarr_format,
    )  # fmt: skip
    made[...] = words
    assert intend(tmp_path / "a.zarr", tmp_path / "b.zarr").is_copied
    report = move(tmp_path / "a.zarr", tmp_path / "b.zarr", check="crc32c")
    assert (report.num_arrays, report.elems, report.bytes) == (1, words.size, 0)
    found = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert np.all(found[...] == words) and found.chunks == made.chunks
    assert found.attrs["units"] == "names"
    move(tmp_path / "a.zarr", f"{tmp_path}/c.h5:/g/words", check="crc32c")
    with h5py.File(tmp_path / "c.h5") as file:
        assert np.all(file["g/words"].asstr()[()] == words)
        assert file["g/words"].attrs["units"] == "names"
    if shape:
        chunks, dims = tuple(3 for _ in shape), [f"d{k}" for k, _ in enumerate(shape)]
        said = {"chunks": chunks, "dims": dims, "zarr_format": 3}
        move(tmp_path / "a.zarr", tmp_path / "d.zarr", **said)
        found = zarr.open_array(tmp_path / "d.zarr", mode="r")
        assert np.all(found[...] == words) and found.chunks == chunks
        assert found.metadata.dimension_names == tuple(dims)


@pytest.mark.filterwarnings("ignore")
def test_what_a_single_array_of_strings_has_not_is_refused(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(2,), dtype=str)[...] = "a"
    for said in ({"region": ((0, 1),)}, {"axes": (0,)}, {"output_dtype": "f4"}):
        (name,) = said
        with pytest.raises(dm.errors.InvalidArgument, match=f"{name}= is not for elements of any"):
            move(tmp_path / "a.zarr", tmp_path / "b.zarr", **said)
    with pytest.raises(dm.errors.InvalidArgument, match=r"chunks= is not for .* strings, in HDF5"):
        move(tmp_path / "a.zarr", tmp_path / "b.h5", chunks=(1,))
    with pytest.raises(dm.errors.InvalidArgument, match=r"chunks .* have 2 dimensions"):
        move(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(1, 1))
    with pytest.raises(dm.errors.Unsupported, match="no fixed size"):
        move(tmp_path / "a.zarr", tmp_path / "b.npy")
    with pytest.raises(dm.errors.InvalidArgument, match="are the same"):
        move(tmp_path / "a.zarr", tmp_path / "a.zarr", overwrite=True)
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("output", ["b.zarr", "b.h5", "b.h5:/other"])
def test_a_single_dataset_of_strings_is_moved(tmp_path, output):
    texts = texts_of((5, 6))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("g/names", data=texts, chunks=(2, 4), dtype=h5py.string_dtype())
        made.attrs.update({"units": "none", "scale": np.float32(2)})
        made.dims[0].label, made.dims[1].label = "y", "x"
        file["u"] = np.arange(3.0)
    assert intend(f"{tmp_path}/a.h5:/g/names", f"{tmp_path}/{output}").is_copied
    move(f"{tmp_path}/a.h5:/g/names", f"{tmp_path}/{output}", check="crc32c")
    if output == "b.zarr":
        found = zarr.open_array(tmp_path / output, mode="r")
        assert np.array_equal(np.asarray(found[...], object), texts)
        assert found.metadata.dimension_names == ("y", "x") and found.attrs["units"] == "none"
        return
    with h5py.File(tmp_path / "b.h5") as file:
        found = file["other" if "other" in output else "g/names"]
        assert np.array_equal(found.asstr()[...], texts) and found.chunks == (2, 4)
        assert found.attrs["scale"].dtype == "f4" and found.attrs["units"] == "none"
        assert [*file.keys()].count("u") == 0


def test_a_single_dataset_of_lists_is_moved_to_hdf5_only(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        made[0], made[1] = np.arange(3), np.arange(1)
        file["refs"] = made.ref
    move(f"{tmp_path}/a.h5:/lists", f"{tmp_path}/b.h5:/lists", check="crc32c")
    with h5py.File(tmp_path / "b.h5") as file:
        assert [found.tolist() for found in file["lists"]] == [[0, 1, 2], [0]]
    with pytest.raises(dm.errors.Unsupported, match="refers to what is in the file"):
        move(f"{tmp_path}/a.h5:/refs", f"{tmp_path}/c.h5:/refs")
    with pytest.raises(dm.errors.Unsupported, match="no fixed"):
        move(f"{tmp_path}/a.h5:/lists", tmp_path / "c.zarr")
    for said in ({"axes": (0,)}, {"chunks": (2,)}):
        with pytest.raises(dm.errors.InvalidArgument, match="is not for elements of any length"):
            move(f"{tmp_path}/a.h5:/lists", f"{tmp_path}/c.h5:/lists", **said)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]


@pytest.mark.parametrize("is_written", [False, True], ids=["unwritten", "partly written"])
@pytest.mark.parametrize("chunks", [None, (2,)], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("member", ["", ":/g/names"], ids=["whole", "single"])
def test_a_fill_value_of_strings_is_copied(tmp_path, member, chunks, is_written):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        said = {"chunks": chunks, "fillvalue": "zz", "compression": "gzip" if chunks else None}
        made = file.create_dataset("g/names", (5,), h5py.string_dtype(), **said)
        if is_written:
            made[2] = "a"
    move(f"{tmp_path}/a.h5{member}", f"{tmp_path}/b.h5{member}", check="crc32c")
    # HDF5 reads chunks that are not written only if the file is open for writing.
    with h5py.File(tmp_path / "b.h5", "r+") as file, h5py.File(tmp_path / "a.h5", "r+") as source:
        found, made = file["g/names"], source["g/names"]
        assert found[...].tolist() == made[...].tolist()
        assert found.fillvalue == b"zz" and found.chunks == chunks
        assert found.compression == made.compression
        assert bool(found.id.get_storage_size()) == is_written
        if chunks:
            assert found.id.get_num_chunks() == made.id.get_num_chunks()


def test_a_dataset_of_strings_without_elements_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["names"] = h5py.Empty(h5py.string_dtype())
    for output in ("b.zarr", "b.h5:/names"):
        with pytest.raises(dm.errors.Unsupported, match=r"has no elements \(a null dataspace"):
            move(f"{tmp_path}/a.h5:/names", f"{tmp_path}/{output}")
    assert os.listdir(tmp_path) == ["a.h5"]


def test_attributes_of_strings_that_json_cannot_hold_are_logged(tmp_path, caplog):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("names", data=["a", "b"], dtype=h5py.string_dtype())
        made.attrs.update({"kept": 1, "c": 1 + 2j})
    move(f"{tmp_path}/a.h5:/names", tmp_path / "b.zarr")
    words = f"{tmp_path}/a.h5:/names: its attribute c is left out: JSON has none of that type"
    assert caplog.messages == [words]
