# SPDX-License-Identifier: BSD-3-Clause
"""DLPack: NumPy views of the arrays of other libraries, without a copy.

NumPy's own `from_dlpack` refuses bfloat16 and the 8-bit floats, and in older versions of NumPy its
result is always read-only. So tensors are read here.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any

import numpy as np

from .dtype_words import dtype_of
from .errors import InvalidArgument, Mismatch, Unsupported, WrongType

#: The version of DLPack that is understood. Minor versions add no fields.
_VERSION = (1, 0)
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}
#: Devices whose memory the CPU reads and writes: its own, pinned and managed memory.
_OF_CPU = frozenset((1, 3, 11, 13))
#: Libraries whose arrays can always be written, also in versions older than DLPack 1.0.
_WRITABLE = frozenset(("torch",))
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}
#: Names in ml_dtypes by (code, bits).
_SMALL_FLOATS = {
    (4, 16): "bfloat16",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


#: The structure of a capsule by its name, and the name of one whose tensor was taken. Capsules do
#: not copy their names, so these live as long as the process.
_CAPSULES = (
    (b"dltensor_versioned", _ManagedVersioned, b"used_dltensor_versioned"),
    (b"dltensor", _Managed, b"used_dltensor"),
)


def _of_capsules(name: str, result: Any) -> Any:
    """Return a function of Python's for a capsule and a name."""
    kind = ctypes.PYFUNCTYPE(result, ctypes.py_object, ctypes.c_char_p)
    return kind((name, ctypes.pythonapi))


_pointer_of = _of_capsules("PyCapsule_GetPointer", ctypes.c_void_p)
_is_valid = _of_capsules("PyCapsule_IsValid", ctypes.c_int)
_rename = _of_capsules("PyCapsule_SetName", ctypes.c_int)


def is_exported(value: Any) -> bool:
    """Return whether an object is an array of another library, which exports it by DLPack."""
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    return hasattr(type(value), "__dlpack__")


def array_of(value: Any, name: str) -> Any:
    """Give a NumPy view of an array that another library exports; all else as it is.

    Parameters
    ----------
    value : Any
        A NumPy array, an object with `__dlpack__`, or anything else.
    name : str
        For messages.

    Raises
    ------
    Unsupported
        The array is on a device, or exported by a version of DLPack that is not known.
    WrongType
        Elements that NumPy and ml_dtypes have no type for.
    InvalidArgument
        The library refuses to export it, exports a copy, or one that it has given away before.

    Examples
    --------
    >>> array_of(np.arange(3.0), "x"), array_of([1, 2], "x")
    (array([0., 1., 2.]), [1, 2])
    """
    if not is_exported(value):
        return value
    try:
        device, number = value.__dlpack_device__()
        _check_device(int(device), number, name)
        capsule = _exported(value)
    except Unsupported:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"{name}, a {type(value).__name__}, cannot be viewed by DLPack: {error}"
        ) from error
    return _taken(capsule, type(value).__module__.partition(".")[0], name)


def shared_array(value: Any, name: str) -> np.ndarray:
    """Give a NumPy view of an array that is exported in any way; refuse one that is copied."""
    array = array_of(value, name)
    if isinstance(array, np.ndarray):
        return array
    one, two = np.asarray(value), np.asarray(value)
    if one.size and not np.may_share_memory(one, two):
        raise InvalidArgument(
            f"{name}, a {type(value).__name__}, is converted to a copy: export its memory by "
            "DLPack or a buffer"
        )
    return one


def _check_device(device: int, number: int, name: str) -> None:
    if device not in _OF_CPU:
        device_name = _DEVICES.get(device, f"DLPack device {device}")
        raise Unsupported(
            f"{name} is on {device_name} {number}, and only memory of the CPU is moved: copy it to "
            "the CPU first"
        )


def _exported(value: Any) -> Any:
    for options in ({"max_version": _VERSION, "copy": False}, {"max_version": _VERSION}):
        try:
            return value.__dlpack__(**options)
        except TypeError:  # a library older than these options
            continue
    return value.__dlpack__()


def _taken(capsule: Any, library: str, name: str) -> np.ndarray:
    """View the tensor of a capsule, which the library frees once the view is gone."""
    for capsule_name, kind, used in _CAPSULES:
        if not _is_valid(capsule, capsule_name):
            continue
        managed = kind.from_address(_pointer_of(capsule, capsule_name))
        if kind is _ManagedVersioned and managed.major > _VERSION[0]:
            raise Unsupported(
                f"{name} is exported by DLPack {managed.major}.{managed.minor}, and only "
                f"{_VERSION[0]}.x is known: update datamover"
            )
        if kind is _ManagedVersioned and managed.flags & 2:
            raise InvalidArgument(
                f"{name} would be exported by DLPack as a copy, and the array itself is needed: "
                "pass one that its library need not copy"
            )
        # Before version 1 a library cannot export whether its array may be written.
        is_read_only = managed.flags & 1 if kind is _ManagedVersioned else library not in _WRITABLE
        view = _View(managed.tensor, bool(is_read_only), name)
        array = view.array()
        _rename(capsule, used)
        if managed.deleter:
            deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
            weakref.finalize(view, deleter, ctypes.addressof(managed)).atexit = False
        return array
    raise InvalidArgument(f"{name}: its DLPack capsule was used before, or is not one: {capsule!r}")


class _View:
    """The memory of a tensor, as NumPy reads it."""

    def __init__(self, tensor: _Tensor, is_read_only: bool, name: str):
        _check_device(tensor.device, tensor.device_number, name)
        self._name, self._dtype = name, _dtype_of(tensor, name)
        size = self._dtype.itemsize
        shape = tuple(tensor.shape[: tensor.dims])
        strides = tuple(n * size for n in tensor.strides[: tensor.dims]) if tensor.strides else None
        if min(shape, default=0) < 0:
            raise Mismatch(f"{name} has a negative extent: {shape}")
        # Views of nothing need no address, which libraries leave out.
        address = (tensor.data or 0) + tensor.byte_offset if math.prod(shape) else id(self)
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": f"<u{size}" if self._dtype.isbuiltin != 1 else self._dtype.str,
            "data": (address, is_read_only),
        }

    def array(self) -> np.ndarray:
        try:
            return np.asarray(self).view(self._dtype)
        except (ValueError, OverflowError) as error:
            place: Any = self.__array_interface__
            raise InvalidArgument(
                f"{self._name} is exported by DLPack at address {place['data'][0]} with shape "
                f"{place['shape']} and strides {place['strides']}, which NumPy cannot represent: "
                f"{error}"
            ) from None


def _dtype_of(tensor: _Tensor, name: str) -> np.dtype:
    code, bits = tensor.code, tensor.bits
    if tensor.lanes == 1:
        if (small := _SMALL_FLOATS.get((code, bits))) is not None:
            try:
                return dtype_of(small)
            except TypeError as error:
                raise WrongType(f"{name} has elements of {small}: {error}") from None
        if (code, bits) == (6, 8):
            return np.dtype(bool)
        if code in _KINDS and bits % 8 == 0:
            try:
                return np.dtype(f"{_KINDS[code]}{bits // 8}")
            except TypeError:
                pass
    raise WrongType(
        f"{name} has elements of DLPack type {code} with {bits} bits in {tensor.lanes} lanes, "
        "which NumPy does not have"
    )
