#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 test files of other projects, moved and compared with h5py's own reading.

Usage: `python tests/peers/hdf5_files.py [DIRECTORY ...]`, with datamover, h5py and zarr installed.
Without directories, it uses the files of the installed h5py and those in the source distributions
of pyfive and h5netcdf, which pip downloads into a temporary directory. It prints a line for each
rejected move, and a total. The exit code is 1 if elements differ or an error is not one of
datamover's.
"""

import logging
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import h5py
import numpy as np
import zarr

import datamover as dm
from datamover.files import hdf5, move

PROJECTS = ("pyfive", "h5netcdf")
SUFFIXES = (".h5", ".hdf5", ".nc", ".nc4", ".he5", ".mat")


def download(folder):
    """Put the source distributions into a directory, and extract their files of HDF5."""
    for name in PROJECTS:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
        subprocess.run([*command, "-d", str(folder), name], check=True)
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            files = [m for m in opened if m.isfile() and m.name.lower().endswith(SUFFIXES)]
            opened.extractall(folder, members=files, filter="data")


def read(dataset):
    """Return the elements as h5py reads them; None if it does not."""
    try:
        return dataset[()]
    except (OSError, TypeError, ValueError, RuntimeError):
        return None


def are_same(old, new):
    """Return whether all elements are equal, NaN to NaN; of objects, whether they print alike."""
    old, new = np.asarray(old), np.asarray(new)
    if old.shape != new.shape:
        return False
    if old.dtype.hasobject or old.dtype.names:
        return repr(old.tolist()) == repr(new.tolist())
    return np.array_equal(old, new, equal_nan=old.dtype.kind in "fc")


class Comparison:
    """Moves of files, and what became of them."""

    def __init__(self, folder):
        self.folder = folder
        self.counts = dict.fromkeys(("same", "refused", "different", "wrong error"), 0)
        self._number = 0

    def count(self, kind, what, words=""):
        """Count an outcome; print it if it is not the expected one."""
        self.counts[kind] += 1
        if kind != "same":
            print(f"{kind}: {what}: {words}")

    def moved(self, source, suffix):
        """Move something; return the output, or None if that is refused."""
        self._number += 1
        output = self.folder / f"{self._number}{suffix}"
        try:
            move(str(source), output, check="crc32c")
        except dm.Error as e:
            self.count("refused", f"{source} to {suffix}", e)
        except Exception as e:
            self.count("wrong error", f"{source} to {suffix}", f"{type(e).__name__}: {e}")
        else:
            return output
        return None

    def compare(self, path):
        """Move each dataset of a file, and the file as a whole to HDF5 and Zarr."""
        with h5py.File(path) as file:
            datasets = hdf5.datasets(file)
            expected = {name: read(found) for name, found in datasets.items()}
        for name, values in expected.items():
            if (
                values is None
                or isinstance(values, h5py.Empty)
                or np.asarray(values).dtype.hasobject
            ):
                continue
            output = self.moved(f"{path}:/{name}", ".npy")
            if output:
                kind = "same" if are_same(values, np.load(output)) else "different"
                self.count(kind, f"{path}:/{name}")
        for suffix in (".h5", ".zarr"):
            output = self.moved(path, suffix)
            if output is None:
                continue
            opened = h5py.File(output) if suffix == ".h5" else zarr.open_group(output, mode="r")
            for name, values in expected.items():
                if values is not None and name in opened and not isinstance(values, h5py.Empty):
                    found = opened[name][()]
                    if suffix == ".zarr" and np.asarray(values).dtype.hasobject:
                        with h5py.File(path) as file:
                            values = file[name].asstr()[()]
                        found = np.asarray(found, object)
                    kind = "same" if are_same(values, found) else "different"
                    self.count(kind, f"{path}:/{name} in {suffix}")


def main(folders):
    """Compare all files of directories."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        if not folders:
            download(Path(temporary))
            folders = [temporary, Path(h5py.__file__).parent / "tests"]
        files = [f for folder in folders for f in sorted(Path(folder).rglob("*"))]
        files = [f for f in files if f.name.lower().endswith(SUFFIXES) and h5py.is_hdf5(f)]
        (Path(temporary) / "moved").mkdir()
        comparison = Comparison(Path(temporary) / "moved")
        for path in files:
            comparison.compare(path)
    print(f"{len(files)} files:", ", ".join(f"{n} {k}" for k, n in comparison.counts.items()))
    return 1 if comparison.counts["different"] or comparison.counts["wrong error"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
