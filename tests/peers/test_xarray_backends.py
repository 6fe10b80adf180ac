# SPDX-License-Identifier: BSD-3-Clause
"""xarray's backend tests, with a move between writing and reading.

xarray's own classes save a dataset, `datamover.files.move` moves it to another file or group, and
xarray's own assertions check the result. Tests that do not work this way are left out.
"""

import contextlib
import inspect
import os

import pytest
import xarray as xr
import zarr
from xarray.tests import test_backends as theirs
from xarray.tests.test_backends import default_zarr_format  # noqa: F401  (their fixture)

from datamover.files import move
from datamover.xarray import to_zarr


def names(function):
    """Go through the names that a function, and those within it, look up."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [found for found in code.co_consts if inspect.iscode(found)]


def moved(base, output, engine, is_direct=False):
    """Make a class with the round trips of `base`, through a move to `output`, read by `engine`.

    If `is_direct`, datamover writes the dataset itself, and xarray saves none.
    """

    class Moved(base):
        @contextlib.contextmanager
        def roundtrip(self, data, save_kwargs=None, open_kwargs=None, allow_cleanup_failure=False):
            suffix = ".zarr" if issubclass(base, theirs.ZarrBase) else ".nc"
            with theirs.create_tmp_file(suffix, allow_cleanup_failure) as path:
                place = os.path.join(os.path.dirname(path), output)
                said = {}
                if engine == "zarr":
                    said["zarr_format"] = zarr.config.get("default_zarr_format")
                if is_direct:
                    data = data.copy()
                    for name, encoding in (save_kwargs or {}).get("encoding", {}).items():
                        data[name].encoding = encoding
                    to_zarr(data, place, **said)
                else:
                    self.save(data, path, **save_kwargs or {})
                    move(path, place, **said)
                with xr.open_dataset(place, engine=engine, **open_kwargs or {}) as found:
                    yield found

    for name in dir(Moved):
        test = inspect.unwrap(getattr(Moved, name)) if name.startswith("test_") else None
        if test and (
            inspect.iscoroutinefunction(test) or not {"roundtrip", "super"} & {*names(test)}
        ):
            setattr(Moved, name, None)
    return pytest.mark.filterwarnings("ignore")(Moved)


TestZarrToZarr = moved(theirs.TestZarrDirectoryStore, "moved.zarr", "zarr")
TestZarrToHdf5 = moved(theirs.TestZarrDirectoryStore, "moved.h5", "h5netcdf")
TestHdf5ToHdf5 = moved(theirs.TestH5NetCDFData, "moved.h5", "h5netcdf")
TestHdf5ToZarr = moved(theirs.TestH5NetCDFData, "moved.zarr", "zarr")
TestDatasetToZarr = moved(theirs.TestZarrDirectoryStore, "moved.zarr", "zarr", is_direct=True)
