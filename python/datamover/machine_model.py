# SPDX-License-Identifier: BSD-3-Clause
"""Measured rates of this machine, and their file.

`datamover bench model` writes the costs of decoding to the user's cache; they are read when
datamover is imported, and encodings are chosen by them. Without them, built-in costs are used.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from . import _plan
from .errors import InvalidArgument

#: Names another file; empty for none.
VARIABLE = "DATAMOVER_MODEL"
FORMAT = 1


@dataclass(frozen=True)
class MachineModel:
    """Rates measured by `datamover bench model`.

    Parameters
    ----------
    processor : str
        The processor of the measurement; the model applies to no other.
    rates : dict
        The arguments of `RecomputeModel` that depend on the machine: `instructions` and words
        `read_contiguous`, `read_random`, `write_contiguous`, per second.
    decoding_costs : dict
        Nanoseconds per `pair`, `block`, `symbol`, `offset` and `byte`; `tolerated_slowness`.
    """

    processor: str
    rates: dict[str, float]
    decoding_costs: dict[str, float]


def processor() -> str:
    """Return the processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    import platform

    return platform.processor() or platform.machine()


def model_file() -> Path | None:
    """Return the path of the model: in the user's cache, or the value of `DATAMOVER_MODEL`.

    Examples
    --------
    >>> import os
    >>> from datamover.machine_model import model_file
    >>> os.environ["DATAMOVER_MODEL"] = "/somewhere/model.json"
    >>> model_file().name
    'model.json'
    >>> os.environ["DATAMOVER_MODEL"] = ""
    >>> model_file() is None
    True
    >>> del os.environ["DATAMOVER_MODEL"]
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    import platformdirs

    return platformdirs.user_cache_path("datamover") / "model.json"


def save(model: MachineModel, path: Path) -> None:
    """Store a model; another process never reads a partial one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.{os.getpid()}")
    whole.write_text(json.dumps({"format": FORMAT, **asdict(model)}, indent=2) + "\n")
    whole.replace(path)


def load(path: Path) -> MachineModel | None:
    """Return the model in a file; None if there is none for this processor.

    Raises
    ------
    InvalidArgument
        The file contains something else.
    """
    try:
        kept = json.loads(path.read_text())
        if kept.pop("format") != FORMAT:
            return None
        model = MachineModel(**kept)
        numbers = [*model.rates.values(), *model.decoding_costs.values()]
        if not all(isinstance(n, int | float) for n in numbers):
            raise TypeError("rates and costs are numbers")
    except OSError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidArgument(
            f"{path} does not contain a model of a machine ({error}); run datamover bench model"
        ) from error
    return model if model.processor == processor() else None


def use(model: MachineModel) -> None:
    """Choose encodings by a model's costs, from now on and in this process.

    Raises
    ------
    InvalidArgument
        Costs are missing, unknown or not valid.
    """
    try:
        _plan.set_decoding_costs(**model.decoding_costs)
    except TypeError as error:
        raise InvalidArgument(f"costs of decoding are incomplete or unknown: {error}") from error


def use_kept() -> None:
    """Use the stored model, if there is one; an invalid one is only reported to the log."""
    path = model_file()
    if path is None:
        return
    try:
        model = load(path)
        if model is not None:
            use(model)
    except InvalidArgument as error:
        import logging

        logging.getLogger("datamover").warning("%s", error)
