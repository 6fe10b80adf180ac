# SPDX-License-Identifier: BSD-3-Clause
"""Datasets of xarray, written to Zarr chunk by chunk within a memory limit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import xarray
    from xarray import conventions
    from xarray.backends.zarr import encode_zarr_variable
except ImportError as e:
    raise ImportError("datamover.xarray needs xarray (pip install 'datamover[xarray]')") from e

from datamover.collective_calls import agreeing, refused_by
from datamover.errors import InvalidArgument, Unsupported, WrongType
from datamover.files import formats, names
from datamover.files.chunk_boxes import chunk_shape
from datamover.files.chunk_grid import grids, said_sizes, several_extents
from datamover.files.formats import ArraySpec, MoveOptions, Reader, Shape, slices_at
from datamover.files.json_values import FILL_VALUE
from datamover.files.transfer import MoveReport, move_between
from datamover.files.whole import OfOne, ToZarr
from datamover.files.zarr_traits import ZarrTraits, missing_to_zarr
from datamover.mpi import collectively, comm_address

if TYPE_CHECKING:
    from mpi4py import MPI

#: Kinds of dtypes whose encoding follows from all elements: times, text, and other objects.
ENCODED_WHOLE = "MmOSTU"


@refused_by(agreeing)
def to_zarr(
    ds: xarray.Dataset,
    path: str | os.PathLike[str],
    chunks: Mapping[Hashable, int] | None = None,
    *,
    overwrite: bool = False,
    compressor: str | None = None,
    zarr_format: int | None = None,
    max_bytes: int = formats.DEFAULT_LIMIT,
    temporary: str | os.PathLike[str] | None = None,
    comm: MPI.Comm | None = None,
) -> MoveReport:
    """Write a dataset to a Zarr group, with other chunks than it was read with.

    Each chunk is encoded by xarray, and is read once if memory allows, or else twice, through an
    intermediate. The group appears under its name once it is complete. Times, time differences and
    text are loaded whole. Collective over `comm`, if one is given; every process passes the same
    dataset.

    Parameters
    ----------
    ds : xarray.Dataset
        In memory, from `xarray.open_dataset`, or of Dask arrays.
    path : path
        The output: a directory, or an address as of `datamover.files.move`.
    chunks : mapping of dimension to int, optional
        Extents of the output's chunks. Other dimensions keep the chunks of the Dask array or of the
        file that a variable was read from, or else get chunks of about 1 MiB.
    overwrite : bool
        Replace an existing group. At an address, the old group is removed first, so that the
        dataset must not be read from it.
    compressor : {"auto", "none", "zstd", "gzip", "blosc"}, optional
        By default zarr's default.
    zarr_format : {2, 3}, optional
        By default that of the enclosing group, or 3.
    max_bytes : int
        Memory that each process may use. By default 256 MiB, or that of one chunk.
    temporary : path, optional
        Directory for the intermediate.
    comm : mpi4py.MPI.Comm, optional
        The processes; by default this one alone, with a thread per core.

    Returns
    -------
    MoveReport

    Raises
    ------
    Error
        As `datamover.files.move`; all errors are raised on all processes, and leave no new output.

    Examples
    --------
    >>> import numpy as np, tempfile, xarray as xr
    >>> from datamover.xarray import to_zarr
    >>> u = xr.DataArray(np.arange(24.0).reshape(6, 4), dims=("time", "x"), attrs={"units": "m/s"})
    >>> ds = xr.Dataset({"u": u})
    >>> with tempfile.TemporaryDirectory() as d:
    ...     report = to_zarr(ds, d + "/u.zarr", {"time": 6, "x": 2})
    ...     with xr.open_zarr(d + "/u.zarr", chunks=None) as found:
    ...         found.identical(ds), found.u.encoding["chunks"]
    (True, (6, 2))
    """

    def settle() -> tuple[DatasetWay, str, MoveOptions]:
        options = MoveOptions(
            compressor=compressor, zarr_format=zarr_format, max_bytes=max_bytes,
            overwrite=overwrite, overwrite_group=overwrite, temporary=temporary,
            output_format="zarr",
        )  # fmt: skip
        return DatasetWay(ds, chunks), names.place_of_output(path), formats.verified(options)

    way, place, options = settle() if comm is None else collectively(comm_address(comm), settle)
    return move_between(comm, way, place, options, None)


class DatasetWay(ToZarr):
    """The way of a dataset to a Zarr group."""

    is_one = False

    def __init__(self, ds: xarray.Dataset, chunks: Mapping[Hashable, int] | None):
        if not isinstance(ds, xarray.Dataset):
            raise WrongType(f"ds is of type {type(ds).__name__}, it must be an xarray.Dataset")
        path = ds.encoding.get("source")
        place = names.place_of(path) if isinstance(path, str) else None
        super().__init__(place or "the dataset")
        self.place = place
        self._chunks = {} if chunks is None else dict(chunks)
        for dim, extent in self._chunks.items():
            is_extent = isinstance(extent, (int, np.integer)) and not isinstance(extent, bool)
            if dim not in ds.dims or not is_extent or extent < 1:
                raise InvalidArgument(
                    f"chunks={self._chunks}: {dim!r}: {extent!r} must be a dimension of the "
                    f"dataset ({', '.join(map(repr, ds.dims))}) and an extent of at least 1"
                )
        for name in (*ds.variables, *ds.dims):
            if not isinstance(name, str) or "/" in name:
                raise Unsupported(f"the dataset has {name!r}; names are strings without a slash")
        self._variables, self._attributes = conventions.encode_dataset_coordinates(ds)
        #: Variables encoded: whole, or only without elements.
        self._samples = {}
        for name, variable in self._variables.items():
            is_whole = variable.dtype.kind in ENCODED_WHOLE or not variable.ndim
            sample = variable if is_whole else variable[(slice(0, 0),) * variable.ndim]
            self._samples[name] = encode_zarr_variable(sample.copy(deep=False), name=name)
            if is_whole:  # text may have got a dimension
                self._variables[name] = self._samples[name]

    def opened(self) -> contextlib.AbstractContextManager[Any]:
        """Determine the arrays."""
        self.arrays = {str(name): found.shape for name, found in self._variables.items()}
        self.texts = {name for name in self.arrays if self._dtype(name).hasobject}
        self.check()
        self.require_arrays("has no variables")
        return contextlib.nullcontext()

    def of_one(self, name: str, options: MoveOptions) -> OfOne:
        """Return input and options of one variable, and its opener."""
        said = dataclasses.replace(options, input_format="zarr")
        return f"{self.source}:{name}", said, lambda *_: self._open(name)

    def attributes_of(self, name: str) -> dict[str, Any]:
        """Return the attributes of the group."""
        return _plain(self._attributes)

    def _dtype(self, name: str) -> np.dtype:
        dtype = self._samples[name].dtype
        return np.dtype(object) if dtype.kind in "OUT" else dtype

    def _open(self, name: str) -> VariableReader:
        variable, dtype = self._variables[name], self._dtype(name)
        attributes = _plain(self._samples[name].attrs)
        if FILL_VALUE in attributes:
            attributes[FILL_VALUE] = missing_to_zarr(attributes[FILL_VALUE], dtype)
        others: dict[str, Any] = {"attributes": attributes}
        fill = variable.encoding.get("fill_value", np.nan if dtype.kind == "f" else None)
        if fill is not None:
            others["fill_value"] = fill
        codecs = variable.encoding.get("compressors") or ()
        is_of_format_3 = codecs and all(hasattr(codec, "to_dict") for codec in codecs)
        spec = ArraySpec(
            variable.shape,
            dtype,
            kept=ZarrTraits(
                chunks=self._chunk_of(variable, dtype),
                shards=None if {*variable.dims} & {*self._chunks} else _shards(variable),
                dimension_names=tuple(map(str, variable.dims)),
                compressors=tuple(codecs) if is_of_format_3 and not dtype.hasobject else "auto",
                others=others,
                where=f"{self.source}:{name}",
            ),
        )
        return VariableReader(name, variable, spec, is_encoded=variable is self._samples[name])

    def _chunk_of(self, variable: xarray.Variable, dtype: np.dtype) -> Shape:
        """Return the extents of a variable's chunks in the output."""
        own: Any = stored_chunk(variable)
        if own is None:
            own = chunk_shape(ArraySpec(variable.shape, dtype), MoveOptions())
        extents = zip(variable.dims, variable.shape, own, strict=True)
        return tuple(max(1, min(self._chunks.get(dim, c), n)) for dim, n, c in extents)


def stored_chunk(variable: xarray.Variable) -> Shape | None:
    """Return the extents of a variable's chunks in Dask or in its file; None without chunks."""
    if variable.chunks is not None:
        return tuple(sizes[0] if sizes else 1 for sizes in variable.chunks)
    return _extents(variable, "chunks") or _extents(variable, "chunksizes")


def _extents(variable: xarray.Variable, key: str) -> Shape | None:
    """Return extents from the encoding; None if there are none, or for other dimensions."""
    found = variable.encoding.get(key)
    if not found or len(found) != variable.ndim:
        return None
    what = f"encoding[{key!r}]"
    along = zip(said_sizes(found, what), variable.shape, strict=True)
    # Those of a part of the array that was read do not fit it: the largest one.
    sizes = [
        max(one, default=1) if isinstance(one, tuple) and sum(one) != n else one for one, n in along
    ]
    return grids(what, tuple(sizes), variable.shape)


def _shards(variable: xarray.Variable) -> Shape | None:
    found = _extents(variable, "shards")
    return None if several_extents(found) else found


def _plain(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return attributes with values for JSON."""
    return {
        str(key): value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for key, value in attributes.items()
    }


class VariableReader(Reader):
    """A variable of a dataset; each box is encoded when it is read, unless it already is."""

    def __init__(self, name: str, variable: xarray.Variable, spec: ArraySpec, is_encoded: bool):
        self.spec = spec
        self._name, self._variable, self._is_encoded = name, variable, is_encoded
        chunk = None if is_encoded else stored_chunk(variable)
        self.is_flat = chunk is None
        self.granule = tuple(max(1, n) for n in chunk or spec.kept.chunks)

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        box = self._variable[slices_at(lo, out.shape)]
        elements = out if self.spec.dtype.hasobject else out.view(self.spec.dtype)
        if not self._is_encoded:
            with warnings.catch_warnings(action="ignore"):
                box = encode_zarr_variable(box, name=self._name)
        elements[...] = box.values
