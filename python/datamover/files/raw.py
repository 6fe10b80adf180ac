# SPDX-License-Identifier: BSD-3-Clause
"""Raw files, which contain nothing but elements."""

from __future__ import annotations

import os

from datamover.dtype_words import dtype_of
from datamover.errors import InvalidArgument, IoFailed
from datamover.files.flat import FlatFile, FlatOutput, check_flat_dtype, reserve
from datamover.files.formats import ArraySpec, Format, MoveOptions, check_shape, option, register


def open_reader(path: str, options: MoveOptions) -> FlatFile:
    """Open a raw file with the given shape and dtype; its size must match exactly."""
    unsaid = [option(name) for name in ("shape", "dtype") if getattr(options, name) is None]
    if unsaid:
        raise InvalidArgument(f"{path} is raw: say what it holds, with {' and '.join(unsaid)}")
    if os.path.isdir(path):
        raise IoFailed(f"{path} is a directory, not a raw file")
    if any(extent < 0 for extent in options.shape or ()):
        raise InvalidArgument(f"the shape {options.shape} has a negative extent")
    try:
        dtype = dtype_of(options.dtype)
    except Exception as e:  # NumPy raises many types for an unknown dtype
        raise InvalidArgument(f"{options.dtype!r} is not a NumPy dtype: {e}") from e
    check_flat_dtype(dtype, path)
    spec = ArraySpec(tuple(options.shape or ()), dtype, options.order or "C")
    size = os.path.getsize(path)
    if size != spec.nbytes:
        shape = " x ".join(map(str, spec.shape))
        raise IoFailed(
            f"{path} has {size:,} bytes, but {shape} elements of {dtype} are {spec.nbytes:,}; "
            "check the shape and the dtype"
        )
    check_shape(spec.shape, spec.dtype, path)
    return FlatFile(path, spec, 0, writable=False)


class RawOutput(FlatOutput):
    """A raw file that will be written."""

    def create(self, path: str) -> dict[str, bytes]:
        """Reserve the space."""
        reserve(path, self.spec.nbytes)
        return {}

    def open(self, path: str) -> FlatFile:
        """Open the file for writing."""
        return FlatFile(path, self.spec, 0, writable=True)


#: Anything may be raw, so none is recognized.
register(Format("raw", (".raw", ".bin", ".dat"), lambda path: False, open_reader, RawOutput))
