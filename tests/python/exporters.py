# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of an imaginary library that exports them by DLPack, rightly and wrongly."""

import ctypes

import numpy as np

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
CPU = (1, 0)
#: Names of capsules, which do not copy them.
VERSIONED, PLAIN = b"dltensor_versioned", b"dltensor"
#: What capsules point to, by its address, until they are deleted.
KEPT = {}


class Tensor:
    """A CPU array that can be reached by DLPack alone.

    `numbers` is the array that it exports. `code`, `version`, `lanes` and `device` replace what
    it exports by default.
    """

    def __init__(self, numbers, *, code=None, version=(1, 0), lanes=1, device=CPU):
        self.numbers = numbers
        self.version, self.lanes, self.device = version, lanes, device
        self.code = CODES[numbers.dtype.kind] if code is None else code
        self.deleted = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, max_version=None, **_):
        return self.capsule(versioned=max_version is not None)

    def capsule(self, versioned):
        """Make a capsule as the header dlpack.h describes it, with all that it points to."""
        a = self.numbers
        shape = (ctypes.c_int64 * max(a.ndim, 1))(*a.shape)
        strides = (ctypes.c_int64 * max(a.ndim, 1))(*(s // a.itemsize for s in a.strides))
        deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.delete)
        words = np.zeros(10, np.uint64)
        at = 0
        if versioned:
            words[0] = self.version[0] | self.version[1] << 32
            words[2], words[3] = _address(deleter), 0 if a.flags.writeable else 1
            at = 4
        else:
            words[7] = _address(deleter)
        words[at] = a.__array_interface__["data"][0]
        words[at + 1] = self.device[0] | self.device[1] << 32
        words[at + 2] = a.ndim | self.code << 32 | a.itemsize * 8 << 40 | self.lanes << 48
        words[at + 3], words[at + 4] = ctypes.addressof(shape), ctypes.addressof(strides)
        KEPT[words.ctypes.data] = (self, words, shape, strides, deleter)
        make = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )(("PyCapsule_New", ctypes.pythonapi))
        name = VERSIONED if versioned else PLAIN
        return make(words.ctypes.data, name, None)

    def delete(self, address):
        """Free what a capsule pointed to, as its consumer has to ask for."""
        self.deleted.append(KEPT.pop(address))


class OldTensor(Tensor):
    """A tensor of a library that is older than versions of DLPack."""

    def __dlpack__(self, stream=None):
        return self.capsule(versioned=False)


class Stale(Tensor):
    """A tensor that gives the same capsule again and again."""

    def __dlpack__(self, **_):
        if not hasattr(self, "given"):
            self.given = self.capsule(versioned=True)
        return self.given


class Refusing(Tensor):
    """A tensor that its library does not export, as one that needs a gradient."""

    def __dlpack__(self, **_):
        raise BufferError("use tensor.detach()")


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value
