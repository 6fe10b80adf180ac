// SPDX-License-Identifier: BSD-3-Clause
// Calls with ScaLAPACK's arguments: conversion to datamover's, report, and the last one's error.
#include "matrix_call.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "datamover/datamover_scalapack.h"
#include "geometry/make_error.hpp"
#include "memory/environment_number.hpp"
#include "mpi/checked_call.hpp"

// ScaLAPACK's error handler, of the ScaLAPACK that the program is linked with. A program may have
// one of its own.
extern "C" void pxerbla_(const datamover::BlacsInt* context, const char* routine,
                         const datamover::BlacsInt* argument, std::size_t routine_length);

namespace datamover {
namespace {

// ---------------------------------------------------------------- the report (DATAMOVER_REPORT)

std::string wanted() {
    const char* value = std::getenv("DATAMOVER_REPORT");
    return value ? value : "";
}

/// The sum over all calls, which is printed on standard error when the program ends.
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

/// Whether a report is asked for: DATAMOVER_REPORT=1, of process 0 alone, or =all, of every
/// process.
bool reporting() {
    static const bool asked = !wanted().empty() && wanted() != "0";
    return asked;
}

// ---------------------------------------------------------------- arguments

constexpr int context_position = 11;  // of p?gemr2d's arguments
// Of datamover_matrix_cache_limit.
constexpr std::int64_t most_movers = 64, default_buffer_bytes = std::int64_t{256} << 20;

/// Once, at the first call.
void limit_cache_by_environment() {
    static const bool limited = [] {
        const auto movers = memory::environment_number("DATAMOVER_MATRIX_CACHE");
        if (movers)
            datamover_matrix_cache_limit(static_cast<int>(std::min(*movers, most_movers)),
                                         default_buffer_bytes);
        return movers.has_value();
    }();
    static_cast<void>(limited);
}

/// uplo and diag stand before the arguments of p?gemr2d.
int position_in_trmr2d(int position) {
    if (position == 0) return 0;
    return position < 100 ? position + 2 : position + 200;
}

bool is_one_of(char letter, std::string_view letters) {
    return letters.find(letter) != std::string_view::npos;
}

}  // namespace

// ---------------------------------------------------------------- the last call

LastCall& last_call() noexcept {
    thread_local LastCall last;
    return last;
}

void tell_pxerbla(int code, const char* routine, int context) {
    if (code == 0) return;
    const BlacsInt argument = last_call().argument, in_context = context;
    pxerbla_(&in_context, routine, &argument, std::strlen(routine));
}

// ---------------------------------------------------------------- moves

int move_in_context(int context, const MatrixCall& call) {
    limit_cache_by_environment();
    if (!Place(context).in_grid()) {
        if (call.m == 0 || call.n == 0) return DATAMOVER_SUCCESS;  // as ScaLAPACK does
        last_call().argument = context_position;
        throw make_error(ErrorCode::invalid_argument, "this process is not in the BLACS context ",
                         context);
    }
    const MPI_Comm comm = communicator_of(context);
    datamover_matrix_outcome outcome{};
    std::vector<datamover_mover_pair> pairs;
    if (reporting()) {
        int size = 0;
        mpi::check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
        outcome.capacity = 2 * std::int64_t{size} + 1;
        pairs.resize(static_cast<std::size_t>(outcome.capacity));
        outcome.pairs = pairs.data();
    }
    const int code =
        call.uplo ? datamover_trapezoid_move(comm, call.elem_bytes, call.uplo, call.diag, call.m,
                                             call.n, &call.a, &call.b, &outcome)
                  : datamover_matrix_move(comm, call.type, call.elem_bytes, call.m, call.n, &call.a,
                                          &call.b, call.transposed, call.options, &outcome);
    last_call().argument = outcome.wrong_argument;
    if (code == DATAMOVER_SUCCESS && reporting()) {
        static Report report;
        report.add(outcome);
    }
    return code;
}

int gemr2d(int elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
           int ib, int jb, const int* descb, int context) {
    return remembered([&] {
        return move_in_context(context, {.m = m,
                                         .n = n,
                                         .a = matrix_here(a, ia, ja, desca),
                                         .b = matrix_here(b, ib, jb, descb),
                                         .elem_bytes = elem_bytes});
    });
}

int trmr2d(int elem_bytes, const char* uplo, const char* diag, int m, int n, const void* a, int ia,
           int ja, const int* desca, void* b, int ib, int jb, const int* descb, int context) {
    return remembered([&] {
        const MatrixCall call{.m = m,
                              .n = n,
                              .a = matrix_here(a, ia, ja, desca),
                              .b = matrix_here(b, ib, jb, descb),
                              .elem_bytes = elem_bytes,
                              .uplo = uplo ? *uplo : ' ',
                              .diag = diag ? *diag : ' '};
        const int code = move_in_context(context, call);
        int& argument = last_call().argument;
        argument = position_in_trmr2d(argument);
        if (code != 0 && argument == 0)
            argument = !is_one_of(call.uplo, "UuLl") ? 1 : !is_one_of(call.diag, "UuNn") ? 2 : 0;
        return code;
    });
}

}  // namespace datamover

int datamover_gemr2d_argument(void) {
    return datamover::last_call().argument;
}

extern "C" {
DATAMOVER_PUBLIC_BEGIN

void datamover_gemr2d_error_(datamover::BlacsInt* code, datamover::BlacsInt* argument, char* text,
                             std::size_t text_length) {
    *code = datamover::last_call().code;
    *argument = datamover_gemr2d_argument();
    const char* message = *code == 0 ? "" : datamover_error_message();
    const std::size_t copied = std::min(std::strlen(message), text_length);
    std::memcpy(text, message, copied);
    std::memset(text + copied, ' ', text_length - copied);
}

DATAMOVER_PUBLIC_END
}
