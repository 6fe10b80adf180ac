// SPDX-License-Identifier: BSD-3-Clause
// Streams of a communicator: the sending end.
#include "datamover/stream.hpp"

#include "geometry/make_error.hpp"
#include "io/group_together.hpp"
#include "npy_header.hpp"
#include "stream/sender/producer.hpp"

namespace datamover {

Stream::Stream(MPI_Comm comm, const std::string& address, const StreamOptions& options)
    : producer_(std::make_unique<stream::Producer>(
          std::make_shared<io::GroupTogether>(mpi::ProcessGroup::of(comm)), address,
          io::with_timeout(options))) {}

Stream::Stream(std::unique_ptr<stream::Producer> producer) : producer_(std::move(producer)) {}

// Here, where what is kept is known: programs see its name alone.
Stream::Stream() = default;
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

stream::Producer& Stream::producer() const {
    if (producer_ == nullptr) throw Error(ErrorCode::invalid_state, "the Stream is not open");
    return *producer_;
}

void Stream::send(const std::string& name, const ArrayPart& array,
                  std::optional<std::int64_t> step) {
    const std::string dtype =
        array.elem_bytes < 1 ? "" : concat('\"', io::npy_descr(array.type, array.elem_bytes), '\"');
    producer().send(name,
                    {array.layout,
                     array.base,
                     &array.memory,
                     {array.memory.begin_bytes, array.memory.end_bytes},
                     dtype,
                     array.elem_bytes},
                    step);
}

void Stream::end_step() {
    producer().end_step();
}

void Stream::refuse(const Error& why) {
    producer().refuse(why);
}

void Stream::close(std::optional<double> timeout_seconds) {
    producer().close(io::timeout_or_default(timeout_seconds));
}

const std::string& Stream::address() const {
    return producer().address();
}

const std::string& Stream::token() const {
    return producer().token();
}

StreamCounters Stream::counters() const {
    return producer().counters();
}

}  // namespace datamover
