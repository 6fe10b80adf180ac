# SPDX-License-Identifier: BSD-3-Clause
"""Which complete applications come with datamover? See `datamover app`."""
