// SPDX-License-Identifier: BSD-3-Clause
// Streams of a communicator: the receiving end.
#include "datamover/stream_source.hpp"

#include "geometry/make_error.hpp"
#include "io/group_together.hpp"
#include "npy_header.hpp"
#include "stream/receiver/consumer.hpp"

namespace datamover {

StreamSource::StreamSource(MPI_Comm comm, const std::string& address,
                           const StreamSourceOptions& options)
    : consumer_(std::make_unique<stream::Consumer>(
          std::make_shared<io::GroupTogether>(mpi::ProcessGroup::of(comm)), address,
          io::with_timeout(options))) {}

// Here, where what is kept is known: programs see its name alone.
StreamSource::StreamSource() = default;
StreamSource::~StreamSource() = default;
StreamSource::StreamSource(StreamSource&&) noexcept = default;
StreamSource& StreamSource::operator=(StreamSource&&) noexcept = default;

stream::Consumer& StreamSource::consumer() const {
    if (consumer_ == nullptr)
        throw Error(ErrorCode::invalid_state, "the StreamSource is not connected");
    return *consumer_;
}

std::vector<StreamArray> StreamSource::arrays(std::optional<double> timeout_seconds) {
    std::vector<StreamArray> arrays;
    for (stream::SentArray& known : consumer().arrays(io::timeout_or_default(timeout_seconds)))
        arrays.push_back({std::move(known.name), std::move(known.layout), std::move(known.dtype),
                          known.elem_bytes});
    return arrays;
}

void StreamSource::subscribe(std::map<std::string, ArrayPart> wanted) {
    std::vector<stream::WantedArray> words;
    for (const auto& [name, part] : wanted) {
        if (!part.writable)
            refuse(make_error(ErrorCode::invalid_argument, "the memory for array '", name,
                              "' is read-only"));
        const std::string dtype =
            part.elem_bytes < 1 ? ""
                                : concat('\"', io::npy_descr(part.type, part.elem_bytes), '\"');
        words.push_back({name, part.layout, dtype});
    }
    consumer().subscribe(std::move(words));
    wanted_ = std::move(wanted);
}

void StreamSource::subscribe_to_all() {
    consumer().subscribe_to_all();
    wants_all_ = true;
}

/// Puts an array of the open step into memory of this object.
void StreamSource::unpack_whole(const stream::IncomingArray& array) {
    const std::int64_t elem_bytes = array.elem_bytes();
    const auto bytes = static_cast<std::size_t>(array.wanted().local_elems(0)) *
                       static_cast<std::size_t>(elem_bytes);
    whole_memory_ = consumer().unpack_new(array.name(), elem_bytes);
    whole_ = WholeStreamArray{
        array.name(), array.wanted(), array.dtype(), elem_bytes, {whole_memory_.get(), bytes}};
}

const WholeStreamArray& StreamSource::whole_array() const {
    consumer();
    if (!whole_)
        throw Error(ErrorCode::invalid_state,
                    "no whole array: call subscribe_to_all(), then next()");
    return *whole_;
}

std::optional<StreamStep> StreamSource::next(std::optional<double> timeout_seconds) {
    stream::Consumer& from = consumer();
    whole_.reset();
    whole_memory_.reset();
    const stream::ArrivedStep* const step = from.next(io::timeout_or_default(timeout_seconds));
    if (step == nullptr) return std::nullopt;
    StreamStep arrived{step->number, {}};
    try {
        for (const auto& [array, messages] : step->arrays) {
            arrived.names.push_back(array->name());
            if (wants_all_) {
                unpack_whole(*array);
                continue;
            }
            const ArrayPart& part = wanted_.at(array->name());
            from.unpack(
                array->name(),
                {part.base, &part.memory, {part.memory.begin_bytes, part.memory.end_bytes}});
        }
        from.taken();
    } catch (const Error& error) {
        from.fail(error);
        throw;
    } catch (const std::exception&) {
        from.fail(Error(ErrorCode::no_memory, "out of memory while unpacking a step"));
        throw;
    }
    return arrived;
}

void StreamSource::refuse(const Error& why) {
    consumer().refuse(why);
}

void StreamSource::close() {
    consumer().close();
}

StreamSourceCounters StreamSource::counters() const {
    return consumer().counters();
}

}  // namespace datamover
