# SPDX-License-Identifier: BSD-3-Clause
"""The checks of a stream's histories find every kind of violation in hand-made ones."""

import copy

import pytest
from stream_histories import (
    DETECTION_SECONDS,
    SENDER,
    SLACK_SECONDS,
    Receiver,
    Schedule,
    Sender,
    checksum,
    violations,
)

ELEMS = 12
STEPS = 6
COUNTERS = {
    "bytes_kept": 0,
    "steps_dropped": 0,
    "consumers_came": 1,
    "consumers": 0,
    "consumers_left": 1,
    "consumers_lost": 0,
}
TWO = ("a", 0), ("a", 1)
LATE = 10 + DETECTION_SECONDS + SLACK_SECONDS + 100


def schedule(policy="block", **options):
    sender = Sender(2, {"u": (ELEMS, "block")}, policy, timeout=1.0)
    return Schedule(sender, {"a": Receiver(2, {"u": "cyclic"}, **options)})


def got(step, rank, dropped=0):
    data = {"u": checksum("u", ELEMS, step, "cyclic", rank, 2)}
    return [10.5 + step, "got", step, data, dropped]


def histories(dropped=()):
    """Those of two programs of two processes; some steps are dropped for the receiving one."""
    sent = [
        entry
        for step in range(STEPS)
        for entry in ([10.1 + step, "send", step], [10.2 + step, "sent", step])
    ]
    closed = [20.0, "closed", COUNTERS | {"steps_dropped": len(dropped)}]
    taken = [step for step in range(STEPS) if step not in dropped]
    received = {
        ("a", rank): [
            [1.0, "start", 7],
            [2.0, "subscribing"],
            [3.0, "joined"],
            *(got(step, rank, sum(other < step for other in dropped)) for step in taken),
            [19.0, "end", len(dropped)],
        ]
        for rank in range(2)
    }
    closed = [[18.0, "closing"], closed]
    return {(SENDER, rank): [[0.5, "start", 6], *sent, *closed] for rank in range(2)} | received


def place(history, kind, number=0):
    return [index for index, entry in enumerate(history) if entry[1] == kind][number]


def without(history, kind, number):
    del history[place(history, kind, number)]


def replaced(history, kind, *entry):
    """End a history by another entry."""
    del history[place(history, kind) :]
    history.append(list(entry))


@pytest.mark.parametrize(
    ("policy", "dropped"), [("block", ()), ("drop_oldest", (0, 1)), ("drop_oldest", (2, 3, 5))]
)
def test_right_histories_have_no_violation(policy, dropped):
    assert violations(schedule(policy), histories(dropped), []) == []


def lose(found):
    for key in TWO:
        without(found[key], "got", 2)


def lose_the_first(found):
    for key in TWO:
        without(found[key], "got", 0)


def lose_the_last(found):
    for key in TWO:
        without(found[key], "got", STEPS - 1)


def lose_on_one(found):
    without(found["a", 1], "got", STEPS - 1)


def repeat(found):
    for key in TWO:
        at = place(found[key], "got", 2)
        found[key].insert(at, found[key][at])


def reorder(found):
    for key in TWO:
        at = place(found[key], "got", 2)
        found[key][at], found[key][at + 1] = found[key][at + 1], found[key][at]


def spoil_data(found):
    found["a", 0][place(found["a", 0], "got", 1)][3]["u"] ^= 1


def miss_an_array(found):
    found["a", 0][place(found["a", 0], "got", 1)][3].clear()


def give_what_was_sent_before(found):
    for key in TWO:
        found[key][place(found[key], "subscribing")][0] = 12.0
        found[key][place(found[key], "joined")][0] = 12.05


def drop_uncounted_by_the_consumer(found):
    for key in TWO:
        found[key][-1][2] -= 1


def drop_uncounted_by_the_sender(found):
    found[SENDER, 0][-1][2]["steps_dropped"] -= 1


def drop_counted_too_often(found):
    for key in TWO:
        found[key][-1][2] += 1
    found[SENDER, 0][-1][2]["steps_dropped"] += 1


def drop_counted_differently(found):
    found["a", 1][-1][2] += 1


def drop_announced_late(found):
    for key in TWO:
        found[key][place(found[key], "got", 2)][4] = 0


def fail_unharmed(found):
    replaced(found["a", 0], "end", 19.0, "error", "PeerFailed", "")


def end_without_a_word(found):
    found["a", 0].pop()


def lose_consumers(found):
    found[SENDER, 0][-1][2].update(consumers_lost=1, consumers_left=0)


def count_wrongly(found):
    found[SENDER, 0][-1][2]["consumers_came"] = 2


def keep_memory(found):
    found[SENDER, 1][-1] = [20.0, "closed", {"bytes_kept": 8}]


def close_late(found):
    found[SENDER, 1][place(found[SENDER, 1], "closing")][0] = 20.0 - 61 - SLACK_SECONDS


def send_differently(found):
    without(found[SENDER, 1], "sent", STEPS - 1)


def time_out_on_one(found):
    found[SENDER, 1].insert(3, [11.0, "timeout", 1, 1.0, ""])


def time_out_late(found):
    for rank in range(2):
        found[SENDER, rank].insert(3, [11.0, "timeout", 1, 2 + SLACK_SECONDS, ""])


@pytest.mark.parametrize(
    ("spoil", "dropped", "words"),
    [
        (lose, (), "misses 1 steps at 3, 0 dropped"),
        (lose_the_first, (), "misses 1 steps at 1, 0 dropped"),
        (lose_the_last, (), "the first one for it is 0 to 0"),
        (lose_on_one, (), "process 1 of a ended 1 steps early"),
        (repeat, (), "got its step 2 after step 2"),
        (reorder, (), "got its step 2 after step 3"),
        (spoil_data, (), "process 0 of a got wrong data in step 1"),
        (miss_an_array, (), "process 0 of a got wrong data in step 1"),
        (give_what_was_sent_before, (), "which was sent before it asked"),
        (drop_uncounted_by_the_consumer, (2, 3), "counts 1 dropped ones; 6 were sent"),
        (drop_uncounted_by_the_sender, (2, 3), "count 2 dropped steps, the sender"),
        (drop_counted_too_often, (2, 3), "counts 3 dropped ones; 6 were sent"),
        (drop_counted_differently, (2, 3), "{2, 3} dropped steps"),
        (drop_announced_late, (2, 3), "misses 2 steps at 4, 0 dropped"),
        (fail_unharmed, (), "process 0 of a ended with [19.0, 'error'"),
        (end_without_a_word, (), "process 0 of a ended with None"),
        (lose_consumers, (), "0 consumers were harmed; the sender counts 1"),
        (count_wrongly, (), "do not add up"),
        (keep_memory, (), "process 1 of the sender has closed its stream and keeps 8 bytes"),
        (close_late, (), "process 1 of the sender did not close its stream in 60.0 s"),
        (send_differently, (), "of different calls"),
        (time_out_on_one, (), "of different calls"),
        (time_out_late, (), "a timeout of 1.0 s took 32.0 s"),
    ],
)
def test_each_violation_is_found(spoil, dropped, words):
    found = copy.deepcopy(histories(dropped))
    spoil(found)
    sentences = violations(schedule("drop_oldest" if dropped else "block"), found, [])
    assert any(words in sentence for sentence in sentences), sentences


def test_the_policy_block_drops_nothing():
    sentences = violations(schedule(), histories((2,)), [])
    assert any("misses 1 steps at 3" in sentence for sentence in sentences)
    assert any("counts 1 dropped steps" in sentence for sentence in sentences)
    assert any("dropped steps with the policy block" in sentence for sentence in sentences)
    assert violations(schedule(newest=True), histories((2,)), []) == []


def histories_of_a_kill(*last):
    """Process 1 of the receiver was killed at 15; the last entry of process 0."""
    found = histories()
    replaced(found["a", 0], "end", *last)
    found["a", 1] = found["a", 1][: place(found["a", 1], "got", 4)]
    found[SENDER, 0][-1][2].update(consumers_lost=1, consumers_left=0)
    return found


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ((16.0, "error", "PeerFailed", ""), None),
        ((LATE, "error", "PeerFailed", ""), "too late"),
        ((16.0, "end", 0), "process 0 of a has no error"),
        ((16.0, "connected"), "process 0 of a has no error"),
    ],
)
def test_a_kill_is_an_error_on_the_others_in_time(last, words):
    deeds = [(15.0, "kill", "a", 1)]
    sentences = violations(schedule(), histories_of_a_kill(*last), deeds)
    assert words is None or any(words in sentence for sentence in sentences)
    assert (words is None) == (sentences == []), sentences


def test_a_killed_sender_is_an_error_on_all_processes_of_both_programs():
    found = histories()
    del found[SENDER, 1][place(found[SENDER, 1], "closed")]
    replaced(found[SENDER, 0], "closed", 17.0, "error", "PeerFailed", "")
    for key in TWO:
        replaced(found[key], "end", 17.0, "error", "PeerFailed", "")
    deeds = [(16.0, "kill", SENDER, 1)]
    assert violations(schedule(), found, deeds) == []
    for spoiled in ((SENDER, 0), *TWO):
        silent = copy.deepcopy(found)
        silent[spoiled].pop()
        assert any("has no error" in sentence for sentence in violations(schedule(), silent, deeds))


def test_processes_that_remain_get_an_error_once_another_one_has_left():
    found = histories()
    replaced(found["a", 1], "end", 16.0, "left", 0)
    leaves = schedule(leaves_after=STEPS, leaver=1)
    assert violations(leaves, found, []) == ["process 0 of a has no error"]
    replaced(found["a", 0], "end", 17.0, "error", "PeerFailed", "")
    assert violations(leaves, found, []) == []


def test_a_receiver_of_an_array_that_only_odd_steps_have_gets_those():
    found = histories()
    for rank in range(2):
        taken = [entry for entry in found["a", rank] if entry[1] != "got" or entry[2] % 2]
        found["a", rank] = taken
        for entry in taken:
            if entry[1] == "got":
                entry[3] = {"v": checksum("v", ELEMS, entry[2], "cyclic", rank, 2)}
    sender = Sender(2, {"u": (ELEMS, "block"), "v": (ELEMS, "block")}, sparse="v")
    sparse = Schedule(sender, {"a": Receiver(2, {"v": "cyclic"})})
    assert violations(sparse, found, []) == []
    for key in TWO:
        without(found[key], "got", 1)
    assert any("misses 1 steps at 5" in sentence for sentence in violations(sparse, found, []))


def test_a_receiver_of_every_array_gets_each_as_a_step():
    sender = Sender(2, {"u": (ELEMS, "block"), "v": (ELEMS, "block")}, sparse="v")
    whole = Schedule(sender, {"a": Receiver(1, {"u": "block", "v": "block"}, whole=True)})
    found = {key: history for key, history in histories().items() if key != ("a", 1)}
    found["a", 0] = [
        *found["a", 0][: place(found["a", 0], "got")],
        *(
            [10.5 + step, "got", step, {name: checksum(name, ELEMS, step, "block", 0, 1)}, 0]
            for step in range(STEPS)
            for name in sender.arrays_of(step)
        ),
        [19.0, "end", 0],
    ]
    assert len(found["a", 0]) == 4 + STEPS + STEPS // 2
    assert violations(whole, found, []) == []
    for spoil, words in [
        (lambda history: without(history, "got", 2), "misses 1 steps at 2"),
        (lambda history: history.insert(5, history[4]), "got its step 1 after step 1"),
        (lambda history: history[4][3].clear(), "wrong data in step 1"),
    ]:
        spoiled = copy.deepcopy(found)
        spoil(spoiled["a", 0])
        assert any(words in sentence for sentence in violations(whole, spoiled, [])), words


def test_a_partition_until_the_end_may_be_an_error_but_loses_nothing_uncounted():
    parted = [(15.0, "part", "a", 0)]
    found = histories((2, 3))
    assert violations(schedule("drop_oldest"), found, parted) == []
    drop_uncounted_by_the_consumer(found)
    assert len(violations(schedule("drop_oldest"), found, parted)) == 2
    for key in TWO:
        replaced(found[key], "end", 19.0, "error", "Timeout", "")
    assert violations(schedule("drop_oldest"), found, parted) == []
    end_without_a_word(found)
    sentences = violations(schedule("drop_oldest"), found, parted)
    assert sentences == ["process 0 of a ended with None"]
