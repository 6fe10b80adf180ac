# SPDX-License-Identifier: BSD-3-Clause
"""Kinds of arguments of Fortran procedures: their declarations, and their conversions to C.

In the texts, {n} is the argument's name, {given} is `if (present(n)) ` for an optional one, {dims}
the number of dimensions that vectors must have, and {c} the kind of C's integer.
"""

from dataclasses import dataclass

VECTOR = "integer(c_int64_t), allocatable, target :: c_{n}(:)"


@dataclass(frozen=True)
class Kind:
    """How an argument is declared, and what is done with it around a call of C."""

    declared: str
    value: str = ""  # what is passed to C
    shape: str = ""
    local: str = ""  # variables that the value needs, separated by `; `
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    member: str = ""  # value of a member of a structure
    can_fail: bool = False  # whether `before` can set `code`


def handle(name):
    """Return the kind of an object of the module."""
    return Kind(f"type(datamover_{name})", "{n}%handle")


def vector(call):
    """Return the kind of a vector of integers that a call converts."""
    return Kind(
        "class(*)",
        "c_{n}",
        "(:)",
        VECTOR,
        ("{given}call " + call,),
        member="vector_at(c_{n})",
        can_fail=True,
    )


def numbers(declared, converted):
    """Return the kind of a vector that becomes C's ints, one for each dimension."""
    return Kind(
        declared,
        "c_{n}",
        "(:)",
        "integer(c_int), allocatable :: c_{n}(:)",
        (
            "{given}call check_size(size({n}), {dims}, '{n}', code)",
            "{given}allocate (c_{n}, source=" + converted + ")",
        ),
        can_fail=True,
    )


def described(name):
    """Return the kind of a datamover_memory that C gets as a structure."""
    return Kind(
        "type(datamover_memory)",
        "c_{n}",
        local=f"type(datamover_{name}) :: c_{{n}}",
        before=(f"if (code == 0) code = datamover_fortran_{name}({{n}}, c_{{n}})",),
        can_fail=True,
    )


def plain(declared, value="{n}", shape=""):
    """Return the kind of a value that needs no variable."""
    return Kind(declared, value, shape, member="{n}")


ARGUMENTS = {
    "int": plain("integer", "int({n}, {c})"),
    "rank": plain("integer", "int({n}, {c})"),
    "block": plain("integer", "int({n}, {c}) - 1"),
    "comm": plain("integer", "int({n}, {c})"),
    "int64": plain("integer(int64)"),
    "seconds": plain("real(c_double)"),
    "flag": Kind("logical", "c_flag({n})", member="c_flag({n})"),
    "text": Kind(
        "character(*)",
        "c_{n}",
        local="character(:), allocatable, target :: c_{n}",
        before=("{given}c_{n} = trim({n})//c_null_char",),
        member="text_at(c_{n})",
    ),
    "format": Kind("character(*)", member="file_format({n}, code)"),
    "step": Kind(
        "class(*)",
        "c_{n}",
        local="integer(c_int64_t) :: c_{n}",
        before=("call number_step({n}, c_{n}, code)",),
        can_fail=True,
    ),
    "lower": vector("widen({n}, -1, {dims}, '{n}', c_{n}, code)"),
    "extents": vector("widen({n}, 0, {dims}, '{n}', c_{n}, code)"),
    "axes": numbers("integer", "int({n}, c_int) - 1"),
    "flags": numbers("logical", "merge(1_c_int, 0_c_int, {n})"),
    "ranks": Kind(
        "integer",
        shape="(:)",
        local=VECTOR,
        before=("{given}call number_ranks({n}, c_{n})",),
        member="vector_at(c_{n})",
    ),
    "layout": handle("layout"),
    "plan": handle("plan"),
    "target_map": handle("target_map"),
    "array": Kind(
        "type(datamover_array)",
        "c_{n}",
        local="type(c_ptr) :: c_{n}",
        before=("call make_array({n}%handle, c_{n}, code)",),
        after=("call free_array(c_{n})",),
        can_fail=True,
    ),
    "memory": plain("type(datamover_memory)"),
    "memories": plain("type(datamover_memory)", shape="(..)"),
    "keys": described("keys"),
    "targets": described("targets"),
    "arrays": Kind(
        "type(datamover_array)",
        "c_{n}",
        "(:)",
        "type(c_ptr), target :: c_{n}(size({n}))",
        ("call make_arrays({n}%handle, c_{n}, code)",),
        ("call free_array(c_{n})",),
        can_fail=True,
    ),
    "texts": Kind(
        "character(*)",
        "c_{n}",
        "(:)",
        "character(len({n}) + 1), target :: ended_{n}(size({n})); type(c_ptr) :: c_{n}(size({n}))",
        ("call end_texts({n}, ended_{n}, c_{n})",),
    ),
    "ints": plain("integer", "int({n}, {c})", "(:)"),
    "table": plain("integer", "reshape(int({n}, {c}), [size({n})])", "(:, :)"),
    "lower_table": plain("integer", "reshape(int({n}, {c}) - 1, [size({n})])", "(:, :)"),
    # For bodies that are written by hand.
    "reals": Kind("real(c_double)", shape="(:)"),
}


def vector_result(converted, declared="integer"):
    """Return the kind of a result with one entry for each dimension of `self`."""
    return Kind(
        declared + ", allocatable",
        "c_{n}",
        "(:)",
        "integer(c_int64_t) :: c_{n}(8)",
        ("c_{n} = 0",),
        (converted,),
    )


RESULTS = {
    "int64": Kind("integer(int64)", "{n}", before=("{n} = 0",)),
    "step": Kind("integer(int64)", "{n}", before=("{n} = datamover_no_step",)),
    "rank": Kind(
        "integer",
        "c_{n}",
        local="integer(c_int64_t) :: c_{n}",
        before=("c_{n} = -1",),
        after=("{n} = int(c_{n})",),
    ),
    "flag": Kind(
        "logical",
        "c_{n}",
        local="integer(c_int) :: c_{n}",
        before=("c_{n} = 0",),
        after=("{n} = c_{n} /= 0",),
    ),
    "text": Kind(
        "character(:), allocatable",
        "c_{n}",
        local="type(c_ptr) :: c_{n}",
        before=("c_{n} = c_null_ptr",),
        after=("{n} = ''", "if (code == 0) {n} = text_from(c_{n})"),
    ),
    "extents": vector_result("{n} = int(c_{n}(1:{dims}))"),
    "lower": vector_result("{n} = int(c_{n}(1:{dims})) + 1"),
    "index": vector_result("{n} = c_{n}(1:{dims}) + 1", "integer(int64)"),
    "targets": Kind(
        "integer(int64)",
        "c_{n}",
        "(:)",
        "integer(c_int64_t), allocatable :: c_{n}(:)",
        ("allocate (c_{n}(size({n})), source=datamover_no_target)",),
        ("{n} = c_{n}",),
    ),
}
