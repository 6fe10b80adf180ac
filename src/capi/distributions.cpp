// SPDX-License-Identifier: BSD-3-Clause
// C interface: distributions of single elements.
#include "distributions.hpp"

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_distribution_elems(const datamover_distribution* distribution, int64_t* given_elems,
                                 int64_t* received) {
    return guarded([&] {
        const Distribution& d = value_of(distribution, "distribution");
        std::int64_t& all_received = given(received, "received");
        given(given_elems, "given") = d.elems();
        all_received = d.received();
    });
}

int datamover_distribution_start(datamover_distribution* distribution, int64_t num_columns,
                                 const datamover_column* columns, const datamover_room* results) {
    return guarded([&] {
        Distribution& d = value_of(distribution, "distribution");
        std::vector<ElementColumn> moved;
        std::vector<ElementBuffer> arriving;
        try {
            moved = columns_of(d.elems(), num_columns, columns);
            arriving = results_of(num_columns, columns, results);
        } catch (const Error& e) {
            return d.start_refused(e);
        } catch (const std::exception&) {
            return d.start_refused(Error(ErrorCode::no_memory, "out of memory"));
        }
        d.start(moved, arriving);
    });
}
