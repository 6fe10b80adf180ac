# SPDX-License-Identifier: BSD-3-Clause
"""Complete applications that come with datamover. See `datamover app`."""
