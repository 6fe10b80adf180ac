// SPDX-License-Identifier: BSD-3-Clause
// C interface: migrations of single elements.
#include "migrations.hpp"

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_migration_elems(const datamover_migration* migration, int64_t* given_elems,
                              int64_t* received) {
    return guarded([&] {
        const Migration& d = value_of(migration, "migration");
        std::int64_t& all_received = given(received, "received");
        given(given_elems, "given") = d.elems();
        all_received = d.received();
    });
}

int datamover_migration_start(datamover_migration* migration, int64_t num_columns,
                              const datamover_column* columns, const datamover_room* results) {
    return guarded([&] {
        Migration& d = value_of(migration, "migration");
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
