// SPDX-License-Identifier: BSD-3-Clause
// What does datamover.stream call? The sending end of a stream, and what both ends compute alike.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "casters.hpp"
#include "errors.hpp"
#include "relation_apply.hpp"
#include "stream/audience.hpp"
#include "stream/crc32c.hpp"
#include "stream/keyed_hash.hpp"
#include "stream/message_words.hpp"
#include "stream/outbox.hpp"
#include "stream/plan_between.hpp"
#include "stream/reception.hpp"
#include "stream/step_queue.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using stream::Audience;
using stream::Outbox;
using stream::Reception;

namespace {

/// The bytes of an object with Python's buffer interface.
class Bytes {
public:
    explicit Bytes(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~Bytes() { PyBuffer_Release(&view_); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;

    std::span<const std::byte> span() const {
        return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

private:
    Py_buffer view_;
};

/// Keeps the GIL, 40 microseconds for 1 MiB: it is called by daemon threads, which Python ends
/// where they want the GIL again at the end of a program, by unwinding; that does not get through
/// C++.
std::uint32_t crc32c(nb::handle data) {
    const Bytes bytes(data);
    return stream::crc32c(bytes.span());
}

std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t nbytes, int pathway, int pathways) {
    if (pathways < 1 || pathway < 0 || pathway >= pathways)
        throw Error(ErrorCode::invalid_argument, "a message has no such pathway");
    return stream::share_of(nbytes, pathway, pathways);
}

/// All of a sending process but what its program agrees on with the others.
class SendingEnd {
public:
    SendingEnd(const std::vector<int>& sockets, const std::string& token, int pathways)
        : outbox_(std::make_shared<Outbox>(pathways)),
          reception_(sockets, token, outbox_, nullptr) {}
    SendingEnd(const std::vector<int>& sockets, const std::string& token, int pathways,
               std::shared_ptr<Audience> audience)
        : outbox_(std::make_shared<Outbox>(pathways)),
          audience_(std::move(audience)),
          reception_(sockets, token, outbox_, audience_) {}

    Outbox& outbox() { return *outbox_; }
    /// Throws invalid_state on processes that have none.
    Audience& audience() {
        if (audience_ == nullptr)
            throw Error(ErrorCode::invalid_state, "only process 0 knows the consumers");
        return *audience_;
    }
    bool has_audience() const { return audience_ != nullptr; }
    Reception& reception() { return reception_; }

private:
    std::shared_ptr<Outbox> outbox_;
    std::shared_ptr<Audience> audience_;
    Reception reception_;
};

void make_first(SendingEnd* end, const std::vector<int>& sockets, const std::string& token,
                int pathways, const std::string& producers, const std::string& policy,
                std::int64_t queue_steps, std::int64_t queue_bytes, std::int64_t consumers) {
    const stream::Flow flow{stream::policy_of_name(policy), queue_steps, queue_bytes};
    stream::JsonObject welcome;
    welcome.add("type", "welcome")
        .add("pathways", pathways)
        .add_json("producers", producers)
        .add_json("ahead", flow.policy != stream::Policy::drop_oldest ? "true" : "false");
    auto audience = std::make_shared<Audience>(flow, consumers, std::move(welcome));
    new (end) SendingEnd(sockets, token, pathways, std::move(audience));
}

void pack(SendingEnd& end, const std::string& key, std::uint64_t place, std::uint32_t array,
          const nb::dict& relations, nb::handle source) {
    const bindings::ArrayMemory from(source, "source");
    std::vector<stream::Outgoing> outgoing;
    for (const auto& [peer, relation] : relations) {
        outgoing.push_back({nb::cast<int>(peer), nb::cast<const AddressRelation*>(relation)});
        bindings::require_elems(from, outgoing.back().relation->source_elem_bytes());
    }
    nb::gil_scoped_release release;
    end.outbox().pack(key, place, array, outgoing, {from.data(), bindings::bounds_of(from)});
}

std::chrono::milliseconds milliseconds_of(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

/// What all sending processes are told, as JSON can say it.
nb::object decide(SendingEnd& end, int array, std::int64_t sequence, std::int64_t number,
                  double seconds) {
    std::optional<stream::Decision> decision;
    {
        nb::gil_scoped_release release;
        decision = end.audience().decide(array, sequence, number, milliseconds_of(seconds));
    }
    if (!decision) return nb::none();
    nb::list joined, dropped;
    for (const auto& one : decision->joined)
        joined.append(nb::make_tuple(one.key, one.nprocs, one.wanted));
    for (const auto& [key, place] : decision->dropped) dropped.append(nb::make_tuple(key, place));
    nb::dict to, words;
    for (const auto& [key, place] : decision->to) to[nb::cast(key)] = place;
    words["new"] = joined;
    words["gone"] = decision->gone;
    words["dropped"] = dropped;
    words["to"] = to;
    return words;
}

nb::dict counters(SendingEnd& end) {
    nb::dict counts;
    counts["bytes_kept"] = end.outbox().bytes_kept();
    counts["bytes_sent"] = end.outbox().bytes_sent();
    counts["connections_refused"] = end.reception().refused();
    if (!end.has_audience()) return counts;
    const stream::AudienceCounters found = end.audience().counters();
    counts["consumers"] = found.consumers;
    counts["consumers_came"] = found.came;
    counts["consumers_lost"] = found.lost;
    counts["steps_dropped"] = found.steps_dropped;
    return counts;
}

void bind_functions(nb::module_& m) {
    m.def("crc32c", &crc32c, "data"_a, nb::sig("def crc32c(data: object) -> int"),
          R"doc(The CRC32C (RFC 3720) of anything with Python's buffer interface.

Examples
--------
>>> from datamover import _plan
>>> hex(_plan.crc32c(bytes(32)))
'0x8a9136aa'
)doc");
    m.def("share_of", &share_of, "nbytes"_a, "pathway"_a, "pathways"_a,
          R"doc(From where to where of a message one of several connections carries it.

Examples
--------
>>> from datamover import _plan
>>> [_plan.share_of(100_000, pathway, 3) for pathway in range(3)]
[(0, 65536), (65536, 100000), (100000, 100000)]
)doc");
    m.def("keyed_hash", &stream::keyed_hash, "key"_a, "text"_a,
          "The HMAC-SHA-256 of a text, as hexadecimal digits.");
    m.def("plan_between", &stream::plan_between, "source"_a, "destination"_a,
          R"doc(Plan what goes from the processes of one program to those of another.

Its ranks are processes of the sending program where they send and of the receiving one where they
receive; the smaller program is filled up with processes that hold nothing.

Raises
------
Mismatch
    The arrays have different shapes.
)doc");
    m.def("layout_of_text", &stream::layout_of_text, "text"_a, "nprocs"_a,
          R"doc(The layout that a text says; nothing in it is trusted.

Raises
------
IoError
    It cannot be read, or is for another number of processes.
)doc");
}

void bind_outbox(nb::class_<SendingEnd>& c) {
    c.def(
         "open",
         [](SendingEnd& end, const std::string& key, int nprocs) {
             end.outbox().open(key, nprocs);
         },
         "key"_a, "nprocs"_a, "Let the processes of a consumer connect.")
        .def("pack", &pack, "key"_a, "place"_a, "array"_a, "relations"_a, "source"_a,
             nb::sig("def pack(self, key: str, place: int, array: int, "
                     "relations: dict[int, AddressRelation], source: object) -> None"),
             R"doc(Pack an array for a consumer; it is sent as soon as that is granted.

Parameters
----------
key : str
    The consumer's.
place : int
    The step's among those of the consumer.
array : int
    The array's number.
relations : dict of int to AddressRelation
    What goes to each process of the consumer.
source : array
    Where the array lies.
)doc")
        .def(
            "drop",
            [](SendingEnd& end, const std::string& key, std::uint64_t place) {
                end.outbox().drop(key, place);
            },
            "key"_a, "place"_a, "Forget what is kept of a step.")
        .def(
            "forget", [](SendingEnd& end, const std::string& key) { end.outbox().forget(key); },
            "key"_a, "Forget a consumer that has gone, and end its connections.")
        .def(
            "keys", [](SendingEnd& end) { return end.outbox().keys(); },
            "Name the consumers whose processes may connect.");
}

void bind_audience(nb::class_<SendingEnd>& c) {
    c.def(
         "add_array",
         [](SendingEnd& end, const std::string& name, const std::string& dtype,
            const std::string& layout, std::int64_t nprocs, std::int64_t elem_bytes, int number) {
             end.audience().add_array({number, name, dtype, layout, nprocs, elem_bytes});
         },
         "name"_a, "dtype"_a, "layout"_a, "nprocs"_a, "elem_bytes"_a, "number"_a,
         "Take note of an array before its first step; the dtype in words of JSON.")
        .def("decide", &decide, "array"_a, "sequence"_a, "number"_a, "seconds"_a,
             nb::sig("def decide(self, array: int, sequence: int, number: int, seconds: float) -> "
                     "dict[str, typing.Any] | None"),
             R"doc(Say who gets an array of a step, and what all sending processes have to know.

Returns
-------
dict or None
    None: somebody who blocks has no room yet, also not after `seconds`.
)doc")
        .def(
            "sent",
            [](SendingEnd& end, const std::vector<std::string>& keys, std::int64_t sequence) {
                end.audience().sent(keys, sequence);
            },
            "keys"_a, "sequence"_a,
            "Take note that all processes have packed an array for these consumers.")
        .def(
            "withdraw", [](SendingEnd& end) { end.audience().withdraw(); },
            "End all consumers where what was decided last was perhaps not done.")
        .def(
            "refuse",
            [](SendingEnd& end, const std::string& key, const std::string& code,
               const std::string& words) {
                end.audience().refuse(key, Error(bindings::error_code_from_name(code), words));
            },
            "key"_a, "code"_a, "words"_a,
            "End a consumer for which a sending process cannot do its part.")
        .def(
            "finish_steps", [](SendingEnd& end) { end.audience().finish_steps(); },
            "Say that no more arrays come.")
        .def(
            "wait_until_taken",
            [](SendingEnd& end, double seconds) {
                return end.audience().wait_until_taken(milliseconds_of(seconds));
            },
            "seconds"_a, nb::call_guard<nb::gil_scoped_release>(),
            "Wait until every consumer has all its steps, or so long.")
        .def(
            "end", [](SendingEnd& end) { end.audience().end(); },
            nb::call_guard<nb::gil_scoped_release>(), "Tell all consumers that this was all.")
        .def_prop_rw(
            "max_consumers", [](SendingEnd& end) { return end.audience().max_consumers.load(); },
            [](SendingEnd& end, std::size_t most) { end.audience().max_consumers = most; },
            "Consumers at most.")
        .def_prop_rw(
            "subscribe_milliseconds",
            [](SendingEnd& end) { return end.audience().subscribe_milliseconds.load(); },
            [](SendingEnd& end, int time) { end.audience().subscribe_milliseconds = time; },
            "So long a consumer that wants nothing keeps its place from others.");
}

}  // namespace

void bind_stream(nb::module_& m) {
    bind_functions(m);
    nb::class_<SendingEnd> c(m, "SendingEnd",
                             R"doc(What a sending process keeps for consumers, and who listens.

Threads of its own accept connections at sockets that listen, which are taken over, and serve them.
Process 0 knows the consumers, and is made with four more arguments.

Parameters
----------
sockets : list of int
    File descriptors.
token : str
    What consumers must know; "" for nothing.
pathways : int
    Connections from here to each receiving process.
producers : str
    Where the sending processes listen, as JSON.
policy : str
queue_steps, queue_bytes : int
    How what waits for a consumer is bounded.
consumers : int
    The first decision waits for so many.
)doc");
    c.def(nb::init<const std::vector<int>&, const std::string&, int>(), "sockets"_a, "token"_a,
          "pathways"_a)
        .def("__init__", &make_first, "sockets"_a, "token"_a, "pathways"_a, "producers"_a,
             "policy"_a, "queue_steps"_a, "queue_bytes"_a, "consumers"_a)
        .def("counters", &counters, nb::sig("def counters(self) -> dict[str, int]"),
             "Count bytes, connections and, on process 0, consumers and dropped steps.")
        .def_prop_ro(
            "connections", [](SendingEnd& end) { return end.reception().connections(); },
            "Connections that there are now.")
        .def(
            "close", [](SendingEnd& end) { end.reception().close(); },
            nb::call_guard<nb::gil_scoped_release>(),
            "End all connections and listen no more; not from a forked process.");
    bind_outbox(c);
    bind_audience(c);
}
