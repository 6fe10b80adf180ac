// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of streams. The two ends of a stream, and what tests and pages compute as they
// do.
#include <nanobind/stl/string_view.h>

#include "generated/plan_dicts.hpp"
#include "geometry/interruption.hpp"
#include "memory/crc32c.hpp"
#include "module.hpp"
#include "stream/receiver/consumer.hpp"
#include "stream/sender/outbox.hpp"
#include "stream/sender/places.hpp"
#include "stream/sender/producer.hpp"
#include "stream/wire/endpoints.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::bindings {

using stream::Consumer;
using stream::Producer;

namespace {

/// What an object with Python's buffer interface shows of its memory.
struct BufferView {
    BufferView(nb::handle object, int flags)
        : is_there(PyObject_GetBuffer(object.ptr(), &buffer, flags) == 0) {}
    ~BufferView() {
        if (is_there) PyBuffer_Release(&buffer);
    }
    BufferView(const BufferView&) = delete;
    BufferView& operator=(const BufferView&) = delete;

    Py_buffer buffer{};
    const bool is_there;  ///< else Python has an error
};

/// Memory that somebody else keeps.
struct MemorySpan {
    std::byte* begin = nullptr;
    std::int64_t bytes = 0;
};

/// The memory of an array or a span, and what of it may be read, or written.
std::pair<std::byte*, AddressBounds> memory_of(nb::handle object, const char* name, bool writes) {
    const MemorySpan* span = nullptr;
    if (nb::try_cast(object, span) && span != nullptr) return {span->begin, {0, span->bytes}};
    const ArrayMemory memory(object, name);
    if (writes) memory.require_writable();
    return {memory.data(), memory.bounds()};
}

/// Address, shape and strides of an array; empty if it is no buffer.
std::vector<std::intptr_t> place_of(nb::handle array) {
    const BufferView view(array, PyBUF_STRIDES);
    if (!view.is_there) PyErr_Clear();
    if (!view.is_there) return {};
    std::vector<std::intptr_t> place{reinterpret_cast<std::intptr_t>(view.buffer.buf)};
    for (const Py_ssize_t* numbers : {view.buffer.shape, view.buffer.strides})
        place.insert(place.end(), numbers, numbers + view.buffer.ndim);
    return place;
}

/// Where an array of NumPy lies, which is not kept alive. Others are asked whether they lie there
/// too, which takes less time than to find out where.
class ArrayPlace {
public:
    /// Throws wrong_type where the array is no buffer.
    explicit ArrayPlace(nb::handle array) : place_(place_of(array)) {
        if (place_.empty())
            throw Error(ErrorCode::wrong_type, "the array has no memory of elements");
    }
    bool is_of(nb::handle array) const { return place_of(array) == place_; }

private:
    std::vector<std::intptr_t> place_;
};

/// Keeps the GIL: 40 microseconds for 1 MiB.
std::uint32_t crc32c(nb::handle data) {
    const BufferView view(data, PyBUF_SIMPLE);
    if (!view.is_there) throw nb::python_error();
    return memory::crc32c({static_cast<const std::byte*>(view.buffer.buf),
                           static_cast<std::size_t>(view.buffer.len)});
}

/// An exception of a signal handler in Python.
class InterruptedByPython : public nb::python_error, public Interruption {};

/// A process alone, which Python may interrupt.
class AloneInPython : public stream::Together {
public:
    void check_interrupted() override {
        if (!signal_handler_raised()) return;
        const nb::gil_scoped_acquire acquired;  // the exception takes what the handler raised
        throw InterruptedByPython();
    }
};

/// What streams share, as Python has it. Threads of connections keep the places too, and let go of
/// them at any time: not of Python's object, for which they would need the interpreter's lock, also
/// when Python ends.
struct PlacesInPython {
    std::shared_ptr<stream::Places> places;
};

void make_producer(Producer* producer, std::shared_ptr<stream::Together> together,
                   const std::string& address, std::int64_t pathways, const std::string& policy,
                   std::int64_t queue_steps, std::int64_t queue_bytes, std::int64_t consumers,
                   const std::optional<std::string>& token, std::optional<double> timeout,
                   bool local, bool open, const PlacesInPython* shared, const std::string& name) {
    if (together == nullptr) together = std::make_shared<AloneInPython>();
    auto places = shared != nullptr ? shared->places : nullptr;
    const Unlocked release;
    new (producer) Producer(
        std::move(together), address,
        {pathways, policy, queue_steps, queue_bytes, consumers, token, timeout, local, open},
        std::move(places), name);
}

void send(Producer& producer, const std::string& name, std::optional<Layout> layout,
          nb::handle source, const MemoryLayout& memory, const std::string& dtype,
          std::int64_t elem_bytes, std::optional<std::int64_t> step) {
    const auto [begin, bounds] = memory_of(source, "array", false);
    const stream::SentPart part{
        layout.value_or(Layout()), begin, &memory, bounds, dtype, elem_bytes};
    const Unlocked release;
    producer.send(name, part, step);
}

/// Throws invalid_state on processes that have none.
stream::Audience& audience_of(const Producer& producer) {
    if (producer.audience() == nullptr)
        throw Error(ErrorCode::invalid_state, "only process 0 knows the consumers");
    return *producer.audience();
}

nb::dict counters(const Producer& producer) {
    nb::dict counts = as_dict(producer.counters());
    if (!producer.is_first())
        for (const char* of_first :
             {"consumers", "consumers_came", "consumers_left", "consumers_lost", "steps_dropped"})
            counts.attr("pop")(of_first);
    return counts;
}

void make_consumer(Consumer* consumer, std::shared_ptr<stream::Together> together,
                   const std::string& address, const std::optional<std::string>& token,
                   std::optional<double> timeout, std::int64_t ahead, bool local, bool newest) {
    if (together == nullptr) together = std::make_shared<AloneInPython>();
    const Unlocked release;
    new (consumer) Consumer(std::move(together), address, {token, timeout, ahead, local, newest});
}

using ArrayWords = std::tuple<std::string, std::string, Layout>;

std::vector<ArrayWords> arrays_of(Consumer& consumer, std::optional<double> timeout) {
    std::vector<ArrayWords> words;
    for (stream::SentArray& one : unlocked([&] { return consumer.arrays(timeout); }))
        words.emplace_back(std::move(one.name), std::move(one.dtype), std::move(one.layout));
    return words;
}

using WantedWords = std::tuple<std::string, Layout, std::string, bool>;

void subscribe(Consumer& consumer, std::vector<WantedWords> all) {
    std::vector<stream::WantedArray> wanted;
    for (auto& [name, layout, dtype, comes_in_new_memory] : all)
        wanted.push_back(
            {std::move(name), std::move(layout), std::move(dtype), comes_in_new_memory});
    const Unlocked release;
    consumer.subscribe(std::move(wanted));
}

using StepWords = std::pair<std::int64_t, std::vector<std::pair<std::string, std::string>>>;

std::optional<StepWords> next(Consumer& consumer, std::optional<double> timeout) {
    const auto step = unlocked([&] { return consumer.next(timeout); });
    if (step == nullptr) return std::nullopt;
    StepWords words{step->number, {}};
    for (const auto& [array, messages] : step->arrays)
        words.second.emplace_back(array->name(), array->dtype());
    return words;
}

void unpack(Consumer& consumer, const std::string& name, nb::handle destination,
            const MemoryLayout& memory) {
    const auto [begin, bounds] = memory_of(destination, "destination", true);
    const Unlocked release;
    consumer.unpack(name, {begin, &memory, bounds});
}

NumpyArray<std::uint8_t> unpack_new(Consumer& consumer, const std::string& name,
                                    std::int64_t elem_bytes, std::size_t bytes) {
    auto memory = unlocked([&] { return consumer.unpack_new(name, elem_bytes); });
    auto* const begin = reinterpret_cast<std::uint8_t*>(memory.get());
    return array_over(begin, {bytes}, std::move(memory));
}

void bind_consumer(nb::module_& m) {
    // The receiving end of a stream, with the arguments of datamover.stream.connect. `together`
    // None: this process alone, without MPI.
    nb::class_<Consumer> c(m, "Consumer");
    using Released = nb::call_guard<Unlocked>;
    c.def("__init__", &make_consumer, "together"_a.none(), "address"_a, "token"_a.none(),
          "timeout"_a.none(), "ahead"_a, "local"_a, "newest"_a)
        // Names, dtypes as JSON and layouts of what was sent so far. Collective.
        .def("arrays", &arrays_of, "timeout"_a.none())
        // Say what is wanted: names, layouts, dtypes as JSON or "" for any, and whether each step
        // brings new memory. Collective.
        .def("subscribe", &subscribe, "wanted"_a)
        // Want each array, whole, also those that are sent first later. Of a process alone.
        .def("subscribe_to_all", &Consumer::subscribe_to_all, Released())
        // How an array of the step is wanted.
        .def("layout", &Consumer::layout_of, "name"_a)
        // Wait for the next step: its number, and names and dtypes of its arrays.
        .def("next", &next, "timeout"_a.none())
        // Put this process's part of an array of the step into memory.
        .def("unpack", &unpack, "name"_a, "destination"_a, "memory"_a)
        // Return the new memory with this process's part of an array of the step, as bytes.
        .def("unpack_new", &unpack_new, "name"_a, "elem_bytes"_a, "bytes"_a)
        // Say that the step was unpacked.
        .def("taken", &Consumer::taken, Released())
        // Fail, and tell the other processes.
        .def("fail", refusing(&Consumer::fail), "code"_a, "words"_a, Released())
        // Leave the stream. Local.
        .def("close", &Consumer::close, Released())
        // Steps that the stream has said it dropped for this consumer.
        .def_prop_ro("dropped", &Consumer::dropped)
        // Count bytes, connections, checksum errors and dropped steps.
        .def("counters", [](const Consumer& consumer) { return as_dict(consumer.counters()); })
        // What only tests change.
        // So long the reason of a failure is looked for.
        .def_prop_rw(
            "reason_milliseconds",
            [](const Consumer& consumer) { return consumer.reason_milliseconds.load(); },
            [](Consumer& consumer, int time) { consumer.reason_milliseconds = time; });
    // For tests: whoever has connected is greeted within this time. Gives the one before.
    m.def(
        "set_greeting_milliseconds",
        [](int time) { return stream::greeting_milliseconds.exchange(time); }, "time"_a);
}

/** Python crc32c
The CRC32C (RFC 3720) of anything with Python's buffer interface.

Examples
--------
>>> from datamover import _plan
>>> hex(_plan.crc32c(bytes(32)))
'0x8a9136aa'
*/
void bind_functions(nb::module_& m) {
    m.def("crc32c", &crc32c, "data"_a, docstring_of("crc32c"));
    // Raises Unsupported if no process knows all of it.
    m.def(
        "bytes_of_layout",
        [](const Layout& layout) {
            const std::string bytes = stream::bytes_of_layout(layout);
            return nb::bytes(bytes.data(), bytes.size());
        },
        "layout"_a);
    // The layout of a single process that holds all indices of a layout's domain.
    m.def("whole_of", &stream::whole_of, "layout"_a);
    // Host and port of "tcp://host:port"; raises InvalidArgument.
    m.def(
        "parse_address",
        [](const std::string& text) {
            stream::Address address = stream::Address::of_text(text);
            return std::pair(std::move(address.host), address.port);
        },
        "text"_a);
    // Whether only processes of this machine can reach an address.
    m.def("is_loopback", &stream::is_loopback, "host"_a);
    // Whether an address stands for all interfaces of a machine.
    m.def("is_any", &stream::is_any, "host"_a);
}

void bind_memory(nb::module_& m) {
    // Memory that somebody else keeps alive.
    nb::class_<MemorySpan>(m, "MemorySpan")
        .def(
            "__init__",
            [](MemorySpan* span, std::uintptr_t begin, std::int64_t bytes) {
                new (span) MemorySpan{reinterpret_cast<std::byte*>(begin), bytes};
            },
            "begin"_a, "bytes"_a);
    nb::class_<ArrayPlace>(m, "ArrayPlace")
        .def(nb::init<nb::handle>(), "array"_a)
        // Whether another one begins there and has the same shape and strides.
        .def("is_of", &ArrayPlace::is_of, "array"_a);
}

/// What only tests look at and change.
void bind_for_tests(nb::class_<Producer>& c) {
    // Connections that there are now.
    c.def_prop_ro("connections",
                  [](Producer& producer) { return producer.reception().connections(); })
        // Name the consumers whose processes may connect.
        .def("keys", [](Producer& producer) { return producer.outbox().keys(); })
        // Consumers at most.
        .def_prop_rw(
            "max_consumers",
            [](Producer& producer) { return audience_of(producer).max_consumers.load(); },
            [](Producer& producer, std::size_t most) {
                audience_of(producer).max_consumers = most;
            })
        // So long a consumer that wants nothing keeps its place from others.
        .def_prop_rw(
            "subscribe_milliseconds",
            [](Producer& producer) { return audience_of(producer).subscribe_milliseconds.load(); },
            [](Producer& producer, int time) {
                audience_of(producer).subscribe_milliseconds = time;
            });
}

}  // namespace

void bind_stream(nb::module_& m) {
    bind_functions(m);
    bind_memory(m);
    // The processes of one end of a stream, who agree.
    nb::class_<stream::Together>(m, "Together");
    bind_consumer(m);
    // What streams that share buffers have in common, with the arguments of
    // datamover.stream.Manager.
    nb::class_<PlacesInPython>(m, "Places")
        .def(
            "__init__",
            [](PlacesInPython* shared, std::int64_t active, const std::string& unit,
               std::optional<double> stall) {
                new (shared) PlacesInPython{
                    std::make_shared<stream::Places>(StreamManagerOptions{active, unit, stall})};
            },
            "active"_a, "unit"_a, "stall"_a.none())
        // Streams that hold a place now; known to process 0.
        .def_prop_ro("active", [](const PlacesInPython& shared) {
            const Unlocked release;
            const std::lock_guard lock(shared.places->lock);
            return shared.places->active();
        });
    // The sending end of a stream, with the arguments of datamover.Stream; `queue_bytes` of 0 is no
    // limit. `together` None: this process alone, without MPI. `places`, `name`: with whom it
    // shares buffers, and its name among these; None: with nobody.
    nb::class_<Producer> c(m, "Producer");
    c.def("__init__", &make_producer, "together"_a.none(), "address"_a, "pathways"_a, "policy"_a,
          "queue_steps"_a, "queue_bytes"_a, "consumers"_a, "token"_a.none(), "timeout"_a.none(),
          "local"_a, "open"_a, "places"_a.none(), "name"_a)
        // Send an array of a step: all memory of this process's part, and where in it the blocks
        // lie. `layout` is needed the first time; `dtype` is JSON, "" where no element is here.
        // Collective.
        .def("send", &send, "name"_a, "layout"_a.none(), "source"_a, "memory"_a, "dtype"_a,
             "elem_bytes"_a, "step"_a.none())
        // Nothing more comes of the step that was sent last. Collective.
        .def("end_step", &Producer::end_step, nb::call_guard<Unlocked>())
        // Raise an error on all processes, from the call that the others make. Collective.
        .def("refuse", refusing(&Producer::refuse), "code"_a, "words"_a, nb::call_guard<Unlocked>())
        // Wait so long until consumers have what was sent, then end the stream. Collective.
        .def("close", &Producer::close, "timeout"_a.none(), nb::call_guard<Unlocked>())
        // End all connections and listen no more. Local.
        .def("stop", &Producer::stop, nb::call_guard<Unlocked>())
        // Whether it was.
        .def_prop_ro("is_closed", &Producer::is_closed)
        // Where consumers connect.
        .def_prop_ro("address", &Producer::address)
        // What they must know.
        .def_prop_ro("token", &Producer::token)
        // Whether an array was sent before.
        .def("knows", &Producer::knows, "name"_a)
        // Arrays that were sent so far.
        .def_prop_ro("num_arrays", &Producer::num_arrays)
        // Count bytes, connections and, on process 0, consumers and dropped steps.
        .def("counters", &counters);
    bind_for_tests(c);
}

}  // namespace datamover::bindings
