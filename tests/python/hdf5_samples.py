# SPDX-License-Identifier: BSD-3-Clause
"""Sample attributes of HDF5 datasets, and their comparison between two datasets."""

import h5py
import numpy as np
from h5py import h5a, h5s, h5t

RECORD = np.dtype([("a", ">i2"), ("b", "f4", (2,)), ("c", "S3")])


def give_attributes(held):
    """Give a dataset or group attributes of all kinds that HDF5 has, but references."""
    attrs = held.attrs
    for dtype in ("f4", ">f8", "f2", "i2", "u1", ">u8", "c8", "c16", "?"):
        kind = dtype.replace(">", "big-")
        attrs[f"one {kind}"] = np.ones((), dtype)
        attrs[f"some {kind}"] = np.ones((2, 3), dtype)
        attrs[f"none {kind}"] = np.ones((0, 3), dtype)
        attrs[f"null {kind}"] = h5py.Empty(dtype)
    attrs["text"], attrs["ünï"], attrs["no text"] = "äb", "name", ""
    attrs["texts"] = np.array(["a", "äb", ""], object)
    attrs.create("ascii", b"abc", dtype=h5py.string_dtype("ascii"))
    attrs.create("fixed utf-8", "äb".encode(), dtype=h5py.string_dtype("utf-8", 5))
    attrs["bytes"], attrs["odd bytes"] = np.bytes_(b"K"), np.array([b"\xff", b"a\0b"])
    attrs["opaque"] = np.void(b"\0ab")
    attrs.create("enumeration", 1, dtype=h5py.enum_dtype({"A": 0, "B": 1}, "i1"))
    attrs["record"], attrs["records"] = np.ones((), RECORD), np.ones(3, RECORD)
    with_text = np.dtype([("n", "i4"), ("s", h5py.string_dtype())])
    attrs["records with text"] = np.array([(1, "ä"), (2, "")], with_text)
    attrs.create("lists", data=lists(), dtype=h5py.vlen_dtype("i2"))
    attrs.create("array", np.ones((2, 3), "i2"), dtype=np.dtype(("i2", (3,))))
    for name, kind in special_types().items():
        size = kind.get_size()
        made = h5a.create(held.id, name, kind, h5s.create_simple((2,)))
        made.write(np.frombuffer(bytes(range(1, 2 * size + 1)), f"V{size}"), kind)


def lists():
    found = np.empty(2, object)
    found[:] = [np.arange(3, dtype="i2"), np.arange(1, dtype="i2")]
    return found


def special_types():
    """Give types that NumPy has not."""
    odd = h5t.STD_I16BE.copy()
    odd.set_precision(12)
    padded = h5t.C_S1.copy()
    padded.set_size(4)
    padded.set_strpad(h5t.STR_SPACEPAD)
    tagged = h5t.create(h5t.OPAQUE, 2)
    tagged.set_tag(b"two bytes")
    wide, three, quadruple = h5t.STD_I64LE.copy(), h5t.STD_I32LE.copy(), h5t.IEEE_F64LE.copy()
    wide.set_size(16)
    wide.set_precision(128)
    three.set_size(3)
    quadruple.set_size(16)
    quadruple.set_precision(128)
    quadruple.set_fields(127, 112, 15, 0, 112)
    quadruple.set_ebias(16383)
    return {
        b"odd": odd, b"padded": padded, b"tagged": tagged, b"bits": h5t.STD_B16LE.copy(),
        b"time": h5t.UNIX_D32LE.copy(), b"wide": wide, b"three bytes": three,
        b"quadruple": quadruple, b"long double": h5t.NATIVE_LDOUBLE.copy(),
    }  # fmt: skip


def attributes_as_in_file(held):
    """Give all attributes by name: type, extents and elements as HDF5 has them."""
    names = []
    h5a.iterate(held.id, names.append)
    return {name: _as_in_file(h5a.open(held.id, name)) for name in names}


def _as_in_file(attribute):
    kind, space = attribute.get_type(), attribute.get_space()
    try:
        dtype = kind.dtype
    except (TypeError, ValueError):
        dtype = None
    values = None
    if space.get_simple_extent_type() != h5s.NULL and 0 not in attribute.shape:
        if dtype is None or not dtype.hasobject:
            values = np.empty(attribute.shape, f"V{kind.get_size()}")
            attribute.read(values, kind)
        else:
            values = np.empty(attribute.shape, dtype)
            attribute.read(values)
    return kind.encode(), space.encode(), None if values is None else repr(values.tolist())
