// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of process groups: agreement and notification of failures.
#include "io/group_together.hpp"
#include "module.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/collectives.hpp"
#include "mpi/process_group.hpp"
#include "stream/sender/producer.hpp"

namespace datamover::bindings {

static mpi::ProcessGroupPtr group_at(std::uintptr_t comm_address) {
    return mpi::ProcessGroup::of(comm_at(comm_address));
}

void bind_groups(nb::module_& m) {
    using Released = nb::call_guard<Unlocked>;
    // Raises where MPI may not be called. Local.
    m.def("check_running", &mpi::check_running);
    // Raises on all processes the error that the lowest of them brings; none brings: returns.
    // Collective.
    m.def(
        "agree",
        [](std::uintptr_t comm, std::optional<std::string> code, const std::string& message) {
            std::optional<Error> mine;
            if (code) mine = Error(error_code_from_name(*code), message);
            group_at(comm)->agree(mine);
        },
        "comm_address"_a, "code"_a.none(), "message"_a, Released());
    nb::enum_<stream::Ends>(m, "StreamEnds", "What ends where a sending process fails.")
        .value("STREAM", stream::Ends::stream)
        .value("ALL_STREAMS", stream::Ends::all_streams);
    // Raises Mismatch on all processes if they differ in a pair of (what, value), naming two
    // processes and their values. Collective.
    m.def(
        "require_same",
        [](std::uintptr_t comm, const std::vector<std::pair<std::string, std::string>>& passed,
           const std::string& verb) {
            std::vector<mpi::PassedValue> values;
            for (const auto& [what, value] : passed) values.push_back({what, value});
            mpi::require_same(*group_at(comm), values, verb);
        },
        "comm_address"_a, "passed"_a, "verb"_a, Released());
    // Raises an error on all processes, the others of which send over a stream, end its step
    // or close it; and ends that stream for all, or all streams of its manager. Collective.
    m.def(
        "end_sending",
        [](std::uintptr_t comm, const std::string& code, const std::string& message,
           stream::Ends ends) {
            // They may be in a call of MPI in which they wait for this process: otherwise nobody
            // would ever see the error.
            const mpi::WaitLimit limit(10);
            io::GroupTogether together(group_at(comm));
            stream::end_by_failure(together, Error(error_code_from_name(code), message), ends);
        },
        "comm_address"_a, "code"_a, "message"_a, "ends"_a, Released());
    // Has all processes raise peer_failed in whatever they do together from now on. Local.
    m.def(
        "fail",
        [](std::uintptr_t comm, const std::string& message) {
            group_at(comm)->failures().fail(Error(ErrorCode::peer_failed, message));
        },
        "comm_address"_a, "message"_a, Released());
    // The same on all communicators that the library has used. Nothing where MPI has ended.
    // Local.
    m.def(
        "fail_all",
        [](const std::string& message) { mpi::fail_all(Error(ErrorCode::peer_failed, message)); },
        "message"_a);
    // The processes of a communicator, as a stream's sending ones. Collective as `agree`.
    m.def(
        "together",
        [](std::uintptr_t comm) -> std::shared_ptr<stream::Together> {
            return std::make_shared<io::GroupTogether>(group_at(comm));
        },
        "comm_address"_a, Released());
    // Every process's int64 numbers, in order of rank; waits as movers do. Collective.
    m.def(
        "gather",
        [](std::uintptr_t comm, nb::object numbers) {
            const std::vector<std::int64_t> mine = Integers(numbers, "numbers").to_vector();
            auto all = unlocked([&] { return group_at(comm)->gather(mine); });
            nb::list arrays;
            for (auto& values : all) arrays.append(array_of(std::move(values)));
            return arrays;
        },
        "comm_address"_a, "numbers"_a);
    // By which a process has the others stop. See agreement.py.
    nb::class_<mpi::Alarm>(m, "Alarm")
        .def(
            "__init__",
            [](mpi::Alarm* self, std::uintptr_t comm) { new (self) mpi::Alarm(group_at(comm)); },
            "comm_address"_a, Released())
        // Tells all others. Local.
        .def("ring", &mpi::Alarm::ring, Released())
        // Whether another has failed. Local.
        .def("rings", &mpi::Alarm::rings, Released())
        // Takes in what was sent. Collective.
        .def("settle", &mpi::Alarm::settle, Released());
}

}  // namespace datamover::bindings
