# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the extension modules with arguments that do not match: rejected with one line."""

import pytest

import datamover as dm
from datamover import _mover, _plan
from datamover.call_errors import in_a_line


def functions():
    """Give the functions and constructors of the modules, by name."""
    for module in (_plan, _mover):
        for name, member in vars(module).items():
            if isinstance(member, type) or hasattr(member, "__nb_signature__"):
                yield pytest.param(member, id=f"{module.__name__}.{name}")


def methods():
    """Give the methods of the classes."""
    for module in (_plan, _mover):
        for name, of_class in vars(module).items():
            for method, member in vars(of_class).items() if isinstance(of_class, type) else ():
                if hasattr(member, "__nb_signature__") and not method.startswith("__"):
                    yield pytest.param(member, id=f"{name}.{method}")


def refused(call, *given, **named):
    with pytest.raises(TypeError) as caught:
        call(*given, **named)
    message = str(caught.value)
    assert len(message.splitlines()) == 1 and "incompatible" not in message, message
    return caught


@pytest.mark.parametrize("call", [*functions(), *methods()])
def test_arguments_that_fit_nothing(call):
    for given, named in (([object()] * 20, {}), ([], {"no_such_argument": 1})):
        refused(call, *given, **named)


def test_what_was_given_and_what_should_have_been():
    cyclic = dm.BlockCyclic((4,), "(block)", 2)
    said = (
        "BlockCyclic.owner was called with (str, int); it is BlockCyclic.owner(block: int) -> int"
    )
    assert str(refused(cyclic.owner, "a", 3).value) == said
    caught = refused(dm.BlockCyclic, shape=(4,))
    assert caught.type is dm.errors.WrongType
    start = "BlockCyclic: missing required argument 'distribution'; it is BlockCyclic(shape: int | "
    assert str(caught.value).startswith(start)
    assert str(refused(dm.BlockCyclic, (4,)).value).startswith(start)
    unknown = refused(dm.BlockCyclic, (4,), "(block)", 2, color=1)
    assert str(unknown.value).startswith("BlockCyclic: unknown argument 'color'; it is BlockCyclic")


def test_other_errors_stay_as_they_are():
    region = dm.Region((0,), (1,))
    assert region != 3 and region.__eq__(3) is NotImplemented
    with pytest.raises(dm.errors.InvalidArgument):
        dm.BlockCyclic((4,), "(no)", 2)
    assert in_a_line("unsupported operand type(s)") is None


def test_several_ways_are_all_named():
    said = in_a_line(
        "move(): incompatible function arguments. The following argument types are supported:\n"
        "    1. move(self, x: int) -> None\n    2. move(self) -> numpy.typing.NDArray\n\n"
        "Invoked with types: datamover.layouts.Region, kwargs = { y: str }"
    )
    ways = "Region.move(x: int) or Region.move() -> NDArray"
    assert said == f"Region.move was called with (y: str); it is {ways}"
