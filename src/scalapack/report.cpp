// SPDX-License-Identifier: BSD-3-Clause
// The report of calls with ScaLAPACK's arguments (DATAMOVER_REPORT).
#include "report.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "geometry/make_error.hpp"
#include "mpi/checked_call.hpp"

namespace datamover {
namespace {

std::string wanted() {
    const char* value = std::getenv("DATAMOVER_REPORT");
    return value ? value : "";
}

/// The sum over all calls, which is printed when the program ends.
class Report {
public:
    ~Report() {
        try {
            print();
        } catch (const std::bad_alloc&) {  // there is no memory for words
        }
    }
    void print() const {
        if (calls_ == 0 || (rank_ != 0 && wanted() != "all")) return;
        std::string text = concat("datamover: process ", rank_, ": ", calls_,
                                  " calls of p?gemr2d, p?trmr2d and p?tran, ", planned_,
                                  " planned, the others repeated; arrived: ", bytes_, " bytes");
        for (const auto& [transport, bytes] : by_transport_)
            text += concat(", ", transport, " ", bytes);
        std::fprintf(stderr, "%s\n", text.c_str());
    }
    void add(const datamover_matrix_outcome& outcome) {
        const std::lock_guard lock(mutex_);
        if (rank_ < 0) mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
        ++calls_;
        planned_ += outcome.planned;
        const auto told = std::min(outcome.count, outcome.capacity);
        for (const auto* pair = outcome.pairs; pair != outcome.pairs + told; ++pair) {
            // What stays within the process is told once, as sent.
            if (pair->sends && std::string_view(pair->transport) != "self") continue;
            bytes_ += pair->bytes;
            by_transport_[pair->transport] += pair->bytes;
        }
    }

private:
    std::mutex mutex_;
    int rank_ = -1;
    std::int64_t calls_ = 0, planned_ = 0, bytes_ = 0;
    std::map<std::string, std::int64_t> by_transport_;
};

}  // namespace

bool reporting() {
    static const bool asked = !wanted().empty() && wanted() != "0";
    return asked;
}

std::vector<datamover_mover_pair>& room_for_pairs(MPI_Comm comm) {
    thread_local std::vector<datamover_mover_pair> pairs;
    int size = 0;
    mpi::check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    pairs.resize(2 * static_cast<std::size_t>(size) + 1);
    return pairs;
}

void add_to_report(const datamover_matrix_outcome& outcome) {
    static Report report;
    report.add(outcome);
}

}  // namespace datamover
