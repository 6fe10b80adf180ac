# SPDX-License-Identifier: BSD-3-Clause
"""Plain datasets of HDF5, whose bytes this library reads from the file itself.

A dataset is plain if everything that determines the meaning of its bytes is in the lists below.
h5py reads all others, including those with properties that a later HDF5 may add.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamover.files import hdf5_calls, hdf5_types

#: File drivers of h5py with which a file, or an object at an address, is one run of bytes.
DRIVERS = ("sec2", "fileobj")


def is_plain(file: Any, dataset: Any, dtype: np.dtype) -> bool:
    """Return whether elements are stored as `dtype`, at places that HDF5 reports."""
    from h5py import h5d, h5f

    properties = dataset.id.get_create_plist()
    return (
        file.driver in DRIVERS
        # If this process has the file open for writing, elements may not be in it yet.
        and file.id.get_intent() == h5f.ACC_RDONLY
        and file.userblock_size == 0
        and dataset.file.filename == file.filename
        and properties.get_external_count() == 0
        and (
            properties.get_layout() == h5d.CONTIGUOUS
            or (properties.get_layout() == h5d.CHUNKED and _are_chunks_plain(dataset, properties))
        )
        and (hdf5_types.is_opaque(dtype) or hdf5_types.is_numpys(dataset.id.get_type(), dtype))
    )


def _are_chunks_plain(dataset: Any, properties: Any) -> bool:
    return (
        dataset.size > 0
        and _are_filters_known(dataset, properties)
        and hdf5_calls.chunk_options(properties) == 0
        and _are_places_right(dataset)
    )


def _are_filters_known(dataset: Any, properties: Any) -> bool:
    """Return whether `hdf5_chunks` decodes the filters, in the order in which they encode."""
    from h5py import h5z

    filters = [properties.get_filter(k) for k in range(properties.get_nfilters())]
    codes = [code for code, *_ in filters]
    shuffle, deflate = h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE
    itemsize = dataset.id.get_type().get_size()
    return codes in ([], [shuffle], [deflate], [shuffle, deflate]) and all(
        flags in (0, h5z.FLAG_OPTIONAL) and (code == deflate or values == (itemsize,))
        for code, flags, values, _ in filters
    )


def _are_places_right(dataset: Any) -> bool:
    """Return whether HDF5 reports the places of chunks correctly.

    With one unlimited dimension, the newer of its two indexes stores that dimension first. HDF5
    (2.0 too) ignores this when it reports a place, and returns that of another chunk. It does not
    report which of the two indexes a dataset has.
    """
    endless = [d for d, most in enumerate(dataset.maxshape) if most is None]
    return len(endless) != 1 or endless == [0]
