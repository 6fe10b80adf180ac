# SPDX-License-Identifier: BSD-3-Clause
"""How many random cases do the Python tests draw?

`make test` draws the same cases each time. `DATAMOVER_TEST_CASES=k` (set by `make test-long`) asks
for k times as many, drawn anew.
"""

import os

import hypothesis

MORE = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))

hypothesis.settings.register_profile(
    "datamover",
    max_examples=100 * MORE,
    derandomize=MORE == 1,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("datamover")
