// SPDX-License-Identifier: BSD-3-Clause
// Conversion of a call with ScaLAPACK's arguments to one of datamover's.
#include "matrix_call.hpp"

#include <algorithm>

#include "blacs.hpp"
#include "geometry/make_error.hpp"
#include "last_call.hpp"
#include "memory/environment_number.hpp"
#include "report.hpp"

namespace datamover {
namespace {

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

}  // namespace

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
    if (reporting()) {
        auto& pairs = room_for_pairs(comm);
        outcome.pairs = pairs.data();
        outcome.capacity = static_cast<std::int64_t>(pairs.size());
    }
    const int code =
        call.uplo ? datamover_trapezoid_move(comm, call.elem_bytes, call.uplo, call.diag, call.m,
                                             call.n, &call.a, &call.b, &outcome)
                  : datamover_matrix_move(comm, call.type, call.elem_bytes, call.m, call.n, &call.a,
                                          &call.b, call.transposed, call.options, &outcome);
    last_call().argument = outcome.wrong_argument;
    if (code == DATAMOVER_SUCCESS && reporting()) add_to_report(outcome);
    return code;
}

}  // namespace datamover
