// SPDX-License-Identifier: BSD-3-Clause
// What does datamover.stream call? The outbox of a sending process, checksums, shares of a message.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "relation_apply.hpp"
#include "stream/crc32c.hpp"
#include "stream/message_words.hpp"
#include "stream/outbox.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using stream::Outbox;

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

void pack(Outbox& outbox, const std::string& key, std::uint64_t place, std::uint32_t array,
          const nb::dict& relations, nb::handle source) {
    const bindings::ArrayMemory from(source, "source");
    std::vector<stream::Outgoing> outgoing;
    for (const auto& [peer, relation] : relations) {
        outgoing.push_back({nb::cast<int>(peer), nb::cast<const AddressRelation*>(relation)});
        bindings::require_elems(from, outgoing.back().relation->source_elem_bytes());
    }
    nb::gil_scoped_release release;
    outbox.pack(key, place, array, outgoing, {from.data(), bindings::bounds_of(from)});
}

}  // namespace

void bind_stream(nb::module_& m) {
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
    nb::class_<Outbox>(
        m, "Outbox",
        R"doc(Packed messages of a sending process, by consumer and receiving process.

Parameters
----------
pathways : int
    Connections from here to each receiving process.

Raises
------
InvalidArgument
    When these are not 1 to 16.
)doc")
        .def(nb::init<int>(), "pathways"_a)
        .def("open", &Outbox::open, "key"_a, "nprocs"_a, "Let a consumer connect.")
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
        .def("drop", &Outbox::drop, "key"_a, "place"_a, "Forget what is kept of a step.")
        .def("forget", &Outbox::forget, "key"_a,
             "Forget a consumer that has gone, and end its connections.")
        .def("serve", &Outbox::serve, "socket"_a, "key"_a, "rank"_a, "pathway"_a,
             R"doc(Have a thread send over a data connection until it ends.

The socket, a file descriptor, is taken over, also where an error is raised.

Raises
------
IoError
    No consumer has this key, process or pathway, or there are too many connections.
)doc")
        .def("close", &Outbox::close, "End all connections; not from a forked process.")
        .def("keys", &Outbox::keys, "Name the consumers that may connect.")
        .def_prop_ro("bytes_kept", &Outbox::bytes_kept, "Bytes that have not been taken.")
        .def_prop_ro(
            "bytes_sent", [](const Outbox& o) { return o.counters().bytes_sent.load(); },
            "Bytes that were sent so far.")
        .def_prop_ro(
            "refused", [](const Outbox& o) { return o.counters().refused.load(); },
            "Connections that were ended since what came made no sense.")
        .def_prop_ro(
            "connections", [](const Outbox& o) { return o.counters().connections.load(); },
            "Connections that there are now.");
}
