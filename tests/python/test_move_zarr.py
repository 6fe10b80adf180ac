# SPDX-License-Identifier: BSD-3-Clause
"""Moves to Zarr: keep every value and, from Zarr, all other properties of an array."""

import base64
import json
import sys

import numcodecs
import numpy as np
import pytest
import zarr
from mpi4py import MPI
from zarr import codecs

import datamover as dm
from datamover.files import intend, move

COMM = MPI.COMM_SELF
RECORDS = [
    [("a", "<i2"), ("b", ">f4")],
    [("a", ">i2"), ("b", [("c", ">u8"), ("d", "S3")])],
    [("a", ">M8[s]"), ("b", "?"), ("c", ">U2")],
    np.dtype([("a", "u1"), ("b", ">f8")], align=True),
    [("a", ">c16")],
]
SCALARS = ["f8", ">f8", ">i4", "u1", "c16", ">c8", "?", "S7", "U3", ">U3", "M8[s]", ">M8[ms]", "f2"]
SCALARS += ["V5", "m8[3us]"]


@pytest.fixture(autouse=True, params=[None, MPI.COMM_SELF], ids=["alone", "mpi"])
def _either_way(request, monkeypatch):
    """Moves by this process alone, chunk by chunk, and by the processes of a communicator."""
    monkeypatch.setattr(sys.modules[__name__], "COMM", request.param)


def sample(dtype, shape):
    """Values of any dtype, all different where the dtype has so many."""
    dtype = np.dtype(dtype)
    count = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    if dtype.names:
        records = np.zeros(shape, dtype)
        for name in dtype.names:
            records[name] = sample(dtype[name], shape)
        return records
    if dtype.kind == "V":
        return np.frombuffer(bytes(range(1, 1 + dtype.itemsize)) * count.size, dtype).reshape(shape)
    return (count % 2 if dtype.kind == "b" else count).astype(dtype)


@pytest.mark.parametrize("chunks", [(2, 3), None])
@pytest.mark.parametrize("dtype", [*RECORDS, *SCALARS], ids=str)
def test_every_value_comes_through_zarr(tmp_path, dtype, chunks):
    array = sample(dtype, (5, 7))
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "z.zarr", chunks=chunks, comm=COMM)
    assert (zarr.open_array(tmp_path / "z.zarr", mode="r")[...] == array).all()
    move(tmp_path / "z.zarr", tmp_path / "b.npy", comm=COMM)
    assert (np.load(tmp_path / "b.npy") == array).all()


@pytest.mark.parametrize("fill", [0.0, np.nan])
@pytest.mark.parametrize("dtype", ["c16", ">f8", "f4", [("a", "f8"), ("b", "i4")]], ids=str)
def test_numbers_that_equal_the_fill_value_keep_their_bytes(tmp_path, dtype, fill):
    array = np.zeros((8, 8), dtype)
    floats = array["a"] if array.dtype.names else array.real
    floats[:4] = -0.0
    floats[4:] = -np.float64("nan")
    packed = array.astype(array.dtype.newbyteorder("<"))
    said = {"chunks": (2, 2)}
    if not array.dtype.names:
        said |= {"shards": (4, 4), "fill_value": fill}
    every = {"write_empty_chunks": True}
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 8), dtype=packed.dtype, config=every, **said
    )
    made[...] = packed
    np.save(tmp_path / "a.npy", array)
    said.pop("fill_value", None)
    for name, options in (("a.zarr", {}), ("a.npy", said)):
        move(tmp_path / name, tmp_path / "b.zarr", overwrite=True, comm=COMM, **options)
        found = zarr.open_array(tmp_path / "b.zarr", mode="r")[...]
        assert found.astype(packed.dtype).tobytes() == packed.tobytes()


@pytest.mark.parametrize("dtype", [[("a", "f4", (2,))], [("a", "u1"), ("b", [("c", "i4", 3)])]])
def test_arrays_in_records_are_refused(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.zeros(3, dtype))
    with pytest.raises(dm.errors.Unsupported, match=r"field '[ac]' is an array"):
        move(tmp_path / "a.npy", tmp_path / "z.zarr", comm=COMM)


@pytest.mark.parametrize("dtype", [[("a", "f4")], "V5"], ids=str)
def test_records_in_shards_are_written_where_zarr_can_and_else_refused(tmp_path, dtype):
    """zarr-python can since 3.4."""
    values = sample(dtype, (8,))
    try:
        made = zarr.create_array({}, shape=(8,), chunks=(2,), shards=(4,), dtype=values.dtype)
        made[...] = values
        is_written = made[...].tobytes() == values.tobytes()
    except TypeError:
        is_written = False
    np.save(tmp_path / "a.npy", values)
    said = {"chunks": (2,), "shards": (4,), "comm": COMM}
    if is_written:
        move(tmp_path / "a.npy", tmp_path / "z.zarr", **said)
        found = zarr.open_array(tmp_path / "z.zarr", mode="r")
        assert found.shards == (4,) and found[...].tobytes() == values.tobytes()
        return
    with pytest.raises(dm.errors.Unsupported, match=r"in shards"):
        move(tmp_path / "a.npy", tmp_path / "z.zarr", **said)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


#: More bytes than the machine has are refused by what a chunk says of itself.
BOMBS = {
    "zstd": b"\x28\xb5\x2f\xfd\xe0" + (1 << 50).to_bytes(8, "little") + b"\x01\0\0",
    "zstd of 4 bytes": b"\x28\xb5\x2f\xfd\xa0" + b"\xff" * 4 + b"\x01\0\0",
    "blosc": numcodecs.Blosc().encode(bytes(1 << 20)),
    "lz4": numcodecs.LZ4().encode(bytes(1 << 20)),
    "gzip": numcodecs.GZip().encode(bytes(1 << 20)),
    "gzip in two": 2 * numcodecs.GZip().encode(bytes(100)),
    "zlib": numcodecs.Zlib().encode(bytes(1 << 20)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_chunk_is_not_decoded_beyond_its_size(tmp_path, monkeypatch, name):
    codec = numcodecs.get_codec({"id": name.split()[0]})
    monkeypatch.setattr(type(codec), "decode", lambda *given: pytest.fail("it is decoded"))
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(4,), chunks=(4,), dtype="f8", compressors=codec, zarr_format=2
    )
    made[...] = 1
    (tmp_path / "a.zarr" / "0").write_bytes(BOMBS[name])
    with pytest.raises(
        dm.errors.IoFailed, match=r"chunk 0: .*(decodes to more than|it holds .* not) 32"
    ):
        move(tmp_path / "a.zarr", tmp_path / "b.npy", comm=COMM)


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
@pytest.mark.parametrize("cut", [1, 8, 20])
def test_a_compressed_chunk_that_is_cut_is_an_error(tmp_path, kind, cut):
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(64,), chunks=(64,), dtype="i8",
        compressors=numcodecs.get_codec({"id": kind}), zarr_format=2,
    )  # fmt: skip
    made[...] = np.arange(64)
    whole = (tmp_path / "a.zarr" / "0").read_bytes()
    (tmp_path / "a.zarr" / "0").write_bytes(whole[:-cut])
    with pytest.raises(dm.errors.IoFailed, match="chunk 0"):
        move(tmp_path / "a.zarr", tmp_path / "b.npy", comm=COMM)


def test_streams_of_gzip_may_stand_one_behind_the_other(tmp_path):
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(4,), chunks=(4,), dtype="f8",
        compressors=numcodecs.GZip(), zarr_format=2,
    )  # fmt: skip
    made[...] = np.arange(1, 5)
    data = np.arange(1, 5.0).tobytes()
    twice = numcodecs.GZip().encode(data[:11]) + numcodecs.GZip().encode(data[11:]) + bytes(3)
    (tmp_path / "a.zarr" / "0").write_bytes(twice)
    move(tmp_path / "a.zarr", tmp_path / "b.npy", comm=COMM)
    assert np.load(tmp_path / "b.npy").tolist() == [1, 2, 3, 4]


def source_array(path, **options):
    arguments = {
        "shape": (8, 6),
        "dtype": "f4",
        "chunks": (2, 3),
        "shards": (4, 6),
        "fill_value": np.nan,
        "filters": [codecs.TransposeCodec(order=(1, 0))],
        "serializer": codecs.BytesCodec(endian="big"),
        "compressors": [codecs.BloscCodec(cname="lz4", clevel=3), codecs.Crc32cCodec()],
        "attributes": {"units": "K", "nested": {"list": [1, 2.5, None]}},
        "dimension_names": ("lat", None),
        "chunk_key_encoding": {"name": "v2", "separator": "."},
        **options,
    }
    array = zarr.create_array(path, **arguments)
    array[:4] = sample(array.dtype, (4, 6))
    return array


def metadata(path):
    return json.loads((path / "zarr.json").read_text())


def test_zarr_to_zarr_keeps_what_is_said_of_the_array(tmp_path):
    given = source_array(tmp_path / "a.zarr")
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", comm=COMM)
    assert metadata(tmp_path / "b.zarr") == metadata(tmp_path / "a.zarr")
    assert np.isnan(zarr.open_array(tmp_path / "b.zarr", mode="r").fill_value)
    back = zarr.open_array(tmp_path / "b.zarr", mode="r")[...]
    assert np.array_equal(back, given[...], equal_nan=True)


def test_what_is_said_comes_before_what_is_kept(tmp_path):
    source_array(tmp_path / "a.zarr")
    move(
        tmp_path / "a.zarr", tmp_path / "b.zarr", axes=(1, 0), chunks=(5, 5),
        compressor="none", comm=COMM,
    )  # fmt: skip
    made = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert (made.chunks, made.shards, made.compressors) == ((5, 5), None, ())
    assert made.metadata.dimension_names == (None, "lat") and made.attrs["units"] == "K"
    assert np.isnan(made.fill_value)
    assert np.array_equal(made[...], zarr.open_array(tmp_path / "a.zarr")[...].T, equal_nan=True)


@pytest.mark.parametrize("output", ["b.npy", "b.zarr"])
@pytest.mark.parametrize(
    ("seed", "begin"), [(0, None), (1, "with a part"), (2, "within"), (3, "within")]
)
def test_shards_that_are_larger_than_the_limit_are_read_in_parts(tmp_path, output, seed, begin):
    random = np.random.default_rng(seed)
    chunks = tuple(int(n) for n in random.integers(2, 6, 3))
    shards = tuple(int(c * n) for c, n in zip(chunks, random.integers(3, 6, 3), strict=True))
    array = random.integers(0, 2, [int(n * 1.7) for n in shards]).astype("f4")
    axes = tuple(int(a) for a in random.permutation(3))
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=chunks, shards=shards)
    limit = array[: shards[0], : shards[1], : shards[2]].nbytes  # read as a whole, four times that
    said = {"axes": axes, "max_bytes": limit}
    if begin:
        within = [int(random.integers(1, c)) if begin == "within" else 0 for c in chunks]
        said["region"] = tuple(
            (c * int(random.integers(1, 3)) + w, n - int(random.integers(c)))
            for c, n, w in zip(chunks, array.shape, within, strict=True)
        )
    if output == "b.zarr":
        said["chunks"] = tuple(int(n) for n in random.integers(1, 7, 3))
    found = intend(tmp_path / "a.zarr", tmp_path / output, **said).plan
    report = move(tmp_path / "a.zarr", tmp_path / output, check="crc32c", **said)
    assert found.memory_bytes <= limit
    assert (report.reads, report.passes) == (found.reads, len(found.passes))
    read = found.passes[0].source.chunk
    assert all(n % c == 0 for n, c in zip(read, map(chunks.__getitem__, axes), strict=True))
    back = np.load(tmp_path / output) if output == "b.npy" else zarr.open_array(tmp_path / output)
    moved = array[tuple(slice(*ends) for ends in said.get("region", ()))]
    np.testing.assert_array_equal(back[...], moved.transpose(axes))


def random_chain(random, extents, depth):
    """Codecs of chunks of such extents, of which each that divides them may be a shard of others.

    As tensorstore and others write them: with shards in shards, and codecs around and within.
    """
    dims, found = len(extents), []
    for _ in range(int(random.integers(3))):
        order = random.permutation(dims).tolist()
        found.append(codecs.TransposeCodec(order=order))
        extents = [extents[k] for k in order]
    if depth:
        inner = [int(random.choice([n // m for m in (1, 2, 3) if n % m == 0])) for n in extents]
        index = [[codecs.BytesCodec(), codecs.Crc32cCodec()], [codecs.BytesCodec(endian="big")]]
        found.append(
            codecs.ShardingCodec(
                chunk_shape=inner,
                codecs=random_chain(random, inner, depth - 1),
                index_codecs=index[random.integers(2)],
                index_location=str(random.choice(["start", "end"])),
            )
        )
    else:
        found.append(codecs.BytesCodec(endian=str(random.choice(["little", "big"]))))
    around = [[], [codecs.GzipCodec(level=1)], [codecs.ZstdCodec(), codecs.Crc32cCodec()]]
    return found + around[random.integers(3)]


@pytest.mark.filterwarnings("ignore:.*sharding_indexed")
@pytest.mark.parametrize("seed", range(10))
def test_shards_among_any_other_codecs(tmp_path, seed):
    random = np.random.default_rng(seed)
    extents = [int(random.choice([4, 6, 12]))] * int(random.integers(1, 4))
    shape = [n * int(random.integers(1, 3)) + int(random.integers(n)) for n in extents]
    array = random.integers(0, 5, shape).astype(random.choice(["f4", "i2", "u1"]))
    chain = random_chain(random, extents, int(random.integers(1, 4)))
    zarr.create(
        store=tmp_path / "a.zarr", shape=shape, chunk_shape=extents, dtype=array.dtype,
        zarr_format=3, codecs=chain, fill_value=1,
    )[...] = array  # fmt: skip
    chunks = tuple(int(random.integers(2, 7)) for _ in extents)
    shards = tuple(n * int(random.integers(1, 4)) for n in chunks)
    axes = random.permutation(len(extents)).tolist()
    for said in ({}, {"chunks": chunks}, {"chunks": chunks, "shards": shards}):
        if random.integers(2):
            said |= {"axes": axes, "compressor": "none"}
        move(
            tmp_path / "a.zarr",
            tmp_path / "b.zarr",
            overwrite=True,
            check="crc32c",
            comm=COMM,
            **said,
        )
        moved = zarr.open_array(tmp_path / "b.zarr", mode="r")
        expected = array.transpose(said.get("axes", range(array.ndim)))
        np.testing.assert_array_equal(moved[...], expected)
        names = [codec["name"] for codec in metadata(tmp_path / "b.zarr")["codecs"]]
        assert "sharding_indexed" not in names or names == ["sharding_indexed"]
        assert moved.shards == said.get("shards") if "chunks" in said else moved.shards is not None
        assert moved.chunks == said.get("chunks", moved.chunks)


@pytest.mark.filterwarnings("ignore:.*sharding_indexed")
def test_codecs_within_shards_that_others_are_around_are_kept(tmp_path):
    inner = [
        codecs.TransposeCodec(order=(0, 1)),
        codecs.BytesCodec(endian="big"),
        codecs.GzipCodec(),
    ]
    shards = codecs.ShardingCodec(chunk_shape=(8, 4), codecs=inner)
    zarr.create(
        store=tmp_path / "a.zarr", shape=(40, 24), chunk_shape=(16, 16), dtype="f4", zarr_format=3,
        codecs=[codecs.TransposeCodec(order=(1, 0)), shards, codecs.Crc32cCodec()],
    )[...] = sample("f4", (40, 24))  # fmt: skip
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", comm=COMM)
    made = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert (made.chunks, made.shards) == ((4, 8), (16, 16))
    assert [codec.to_dict()["name"] for codec in made.filters] == ["transpose"] * 2
    assert made.serializer == codecs.BytesCodec(endian="big")
    assert [codec.to_dict()["name"] for codec in made.compressors] == ["gzip", "crc32c"]


def test_shards_that_are_no_multiples_of_their_chunks_are_refused(tmp_path):
    """zarr-python reads some of their elements, and leaves the others as memory was."""
    made = source_array(tmp_path / "a.zarr", shards=None, chunks=(4, 6), filters=None)
    found = metadata(tmp_path / "a.zarr")
    inner = {
        "chunk_shape": [4, 3],
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
    }
    inner |= {"index_codecs": inner["codecs"], "index_location": "end"}
    found["codecs"] = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "sharding_indexed", "configuration": inner},
    ]
    assert made.shape == (8, 6)
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps(found))
    with pytest.raises(dm.errors.IoFailed, match=r"shards of \(4, 6\) are not multiples|divisible"):
        move(tmp_path / "a.zarr", tmp_path / "b.npy", comm=COMM)


@pytest.mark.parametrize("shards", [None, (20,)])
@pytest.mark.parametrize("kept", [
    (), (codecs.GzipCodec(level=7),), (codecs.ZstdCodec(level=2), codecs.Crc32cCodec()),
    (codecs.BloscCodec(cname="lz4", clevel=3, shuffle="bitshuffle"),),
])  # fmt: skip
def test_converted_elements_keep_their_codecs(tmp_path, kept, shards):
    zarr.create_array(
        tmp_path / "a.zarr", data=np.arange(100.0), chunks=(10,), shards=shards, compressors=kept
    )
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", output_dtype="f4")
    found = zarr.open_array(tmp_path / "b.zarr", mode="r")
    np.testing.assert_array_equal(found[...], np.arange(100, dtype="f4"))
    names = [codec.to_dict() for codec in found.compressors]
    assert found.shards == shards and len(names) == len(kept)
    for new, old in zip(names, (codec.to_dict() for codec in kept), strict=True):
        said = old.get("configuration", {})
        if new["name"] == "blosc":
            said = {**said, "typesize": 4}
        assert new["name"] == old["name"] and new.get("configuration", {}) == said


@pytest.mark.parametrize(
    "compressor",
    [None, numcodecs.Zstd(5), numcodecs.GZip(2), numcodecs.Blosc("lz4hc", 4), numcodecs.LZMA()],
    ids=str,
)
@pytest.mark.parametrize("fill_value", [np.nan, -999.0, None])
def test_zarr_v2_comes_with_names_fill_value_and_codec(tmp_path, compressor, fill_value):
    given = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 6), chunks=(3, 3), dtype=">f8", zarr_format=2,
        compressors=compressor, fill_value=fill_value, order="F",
        attributes={"_ARRAY_DIMENSIONS": ["x", "y"], "units": "m"},
    )  # fmt: skip
    given[:3] = sample("f8", (3, 6))
    move(tmp_path / "a.zarr", tmp_path / "b.zarr", comm=COMM)
    made = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert made.metadata.zarr_format == 3 and made.chunks == (3, 3)
    assert made.metadata.dimension_names == ("x", "y")
    # What xarray takes for missing in v2 is the fill value, in v3 an attribute in words of its own.
    missing = {}
    if fill_value is not None:
        bytes_of_double = np.array(fill_value, "<f8").tobytes()
        missing = {"_FillValue": base64.standard_b64encode(bytes_of_double).decode()}
    assert made.attrs.asdict() == {"units": "m", **missing}
    expected = 0.0 if fill_value is None else fill_value
    assert np.array_equal(made.fill_value, expected, equal_nan=True)
    assert np.array_equal(made[:3], given[:3])
    names = {"zstd": "ZstdCodec", "gzip": "GzipCodec", "blosc": "BloscCodec", "lzma": "ZstdCodec"}
    assert [type(c).__name__ for c in made.compressors] == (
        [names[compressor.codec_id]] if compressor else []
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_is_replaced_only_by_an_explicit_word(tmp_path, zarr_format):
    np.save(tmp_path / "a.npy", np.arange(3.0))
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=zarr_format)
    group.create_array("precious", shape=(2,), dtype="f8")[...] = 7
    with pytest.raises(dm.errors.IoFailed, match=r"Zarr group.*overwrite_group=True"):
        move(tmp_path / "a.npy", tmp_path / "g.zarr", overwrite=True, comm=COMM)
    assert (zarr.open_group(tmp_path / "g.zarr", mode="r")["precious"][...] == 7).all()
    move(tmp_path / "a.npy", tmp_path / "g.zarr", overwrite_group=True, comm=COMM)
    assert (zarr.open_array(tmp_path / "g.zarr", mode="r")[...] == np.arange(3.0)).all()


def test_what_is_put_into_a_group_is_zarr(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(24.0).reshape(4, 6))
    zarr.create_group(tmp_path / "run.zarr")
    zarr.create_group(tmp_path / "group")
    for name in ("run.zarr/u", "group/u"):
        move(tmp_path / "a.npy", tmp_path / name, chunks=(2, 3), comm=COMM)
        assert zarr.open_array(tmp_path / name).chunks == (2, 3)
    move(tmp_path / "run.zarr/u", tmp_path / "run.zarr/v", chunks=(4, 6), comm=COMM)
    assert (zarr.open_group(tmp_path / "run.zarr")["v"][...].ravel() == np.arange(24)).all()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_titles_of_fields_are_left_out_with_a_warning_and_gaps_without(
    tmp_path, caplog, zarr_format
):
    inner = np.dtype({"names": ["x"], "formats": ["f4"], "titles": ["the x"]})
    if zarr_format == 2:  # zarr-python has no records within records there
        inner = np.dtype("f4")
    dtype = np.dtype(
        {"names": ["a", "b", "c"], "formats": ["i1", "f8", inner], "offsets": [0, 8, 20],
         "titles": ["the a", None, None], "itemsize": 32}
    )  # fmt: skip
    array = np.zeros(4, dtype)
    array["a"], array["b"] = [1, 2, 3, 4], 0.5
    array["c"] = 7
    np.save(tmp_path / "a.npy", array)
    move(tmp_path / "a.npy", tmp_path / "b.zarr", check="crc32c", zarr_format=zarr_format)
    assert [record.getMessage() for record in caplog.records] == [
        "the titles of fields are left out, as Zarr has none: 'a'" + ", 'c.x'" * (zarr_format == 3)
    ]
    back = zarr.open_array(tmp_path / "b.zarr", mode="r")[...]
    assert back.dtype.itemsize == 13 and back.tolist() == array.tolist()
    move(tmp_path / "b.zarr", tmp_path / "c.zarr", zarr_format=zarr_format)
    assert len(caplog.records) == 1
