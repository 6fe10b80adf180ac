# SPDX-License-Identifier: BSD-3-Clause
"""Messages of strangers to a stream: valid ones, and malformed ones that must not do harm."""

from stream_words import answer, cut, frame_header, framed, grant, many, said

import datamover as dm
from datamover import _plan

LINE = dm.BlockCyclic(6, "block", nprocs=1)


def hello(greeting, **words):
    """Return the first message of a consumer of one process."""
    return answer(greeting, **{"role": "control", "nprocs": 1, **words})


def mutated(rng, data):
    """Some bytes of a message changed, left out, or put in; mostly with a right checksum."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 9)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del data[at:]
        if not data:
            return b"?"
    return bytes(data)


def hostile(rng, keys):
    """Draw a stranger's messages to a stream with these keys, as (messages before, message)."""
    layouts = [
        LINE,
        dm.BlockCyclic(2**62, "cyclic", nprocs=1),
        dm.FloorPlan([dm.Region(0, 6)], [0]),
        dm.IndexList(6, [range(6)]),
    ]
    layout = _plan.bytes_of_layout(rng.choice(layouts))
    subscription = {"type": "subscribe", "arrays": [["u", layout]]}
    odd = rng.choice([-1, 2**63, 2**70, 1.5, "x", None, [], {}, True, "u" * 1000, float("nan")])
    limits = 0, 1, 48, 2**64 - 1
    header = grant(rng.choice(limits), rng.choice(limits), rng.randrange(3))
    data_key = rng.choice(["", "0" * 32, *keys])
    return rng.choice(
        [
            ([], lambda g: rng.randbytes(rng.randrange(1, 200))),
            ([], lambda g: frame_header(2**32 - 1, 0) + b"x"),
            ([], lambda g: said({"role": rng.choice(["control", "data", odd]), "answer": odd})),
            ([], lambda g: hello(g, nprocs=odd)),
            ([], lambda g: hello(g, role="data", key=odd, rank=odd)),
            ([], lambda g: hello(g, role="data", key=data_key, rank=0, pathway=odd)),
            ([], lambda g: hello(g, key=data_key, rank=odd)),
            ([], lambda g: mutated(rng, hello(g))),
            ([], lambda g: framed(b"l" * 9000)),
            ([], lambda g: cut(rng, hello(g))),
            ([], lambda g: said(subscription)),
            ([lambda g: hello(g, role="data", key=data_key, rank=0, pathway=0)], lambda g: header),
            ([hello], lambda g: said({**subscription, rng.choice(list(subscription)): odd})),
            ([hello], lambda g: said({"type": "subscribe", "arrays": [[odd, layout]]})),
            ([hello], lambda g: said({"type": "subscribe", "arrays": [["u", odd]]})),
            ([hello], lambda g: mutated(rng, said(subscription))),
            ([rng.choice([hello, lambda g: hello(g, nprocs=2)])],
             lambda g: said({"type": "subscribe", "arrays": []})),
            ([hello], lambda g: said(dict(subscription, arrays=[["u", mutated(rng, layout)]]))),
            ([hello], lambda g: said({"type": rng.choice(["credit", "done"]), "steps": odd,
                                      "place": odd})),
            ([hello, lambda g: said(subscription)],
             lambda g: said({"type": "done", "place": rng.randrange(3)})),
            ([hello, lambda g: said(subscription)], lambda g: said(subscription)),
            ([hello], lambda g: said({"type": "bye", "code": odd, "words": odd})),
            ([hello], lambda g: cut(rng, said(subscription))),
            ([hello], lambda g: framed(many(rng))),
        ]
    )  # fmt: skip
