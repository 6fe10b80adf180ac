# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures from the root conftest of xarray's tests, which xarray's package does not contain."""

import pytest


def pytest_configure(config):
    """Declare xarray's markers."""
    for name in ("asyncio", "flaky", "network", "skip_if_param", "skip_with_dask_array"):
        config.addinivalue_line("markers", f"{name}: of xarray's tests")


def pytest_runtest_setup(item):
    """Skip cases that xarray marks as impossible with some value of a fixture."""
    found = getattr(item, "callspec", None)
    for mark in item.iter_markers("skip_if_param"):
        said = {k: v for k, v in mark.kwargs.items() if k not in ("reason", "condition")}
        is_such = found and all(found.params.get(name) == value for name, value in said.items())
        if is_such and mark.kwargs.get("condition", True):
            pytest.skip(mark.kwargs["reason"])
