// SPDX-License-Identifier: BSD-3-Clause
// C interface: distributions of single elements.
#include "distributions.hpp"

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

struct Moved {
    std::vector<ElementColumn> columns;
    std::vector<ElementBuffer> results;
};

Moved moved(std::int64_t elems, std::int64_t num_columns, const datamover_column* columns,
            const datamover_room* results) {
    Moved all;
    for (const datamover_column& c : values(columns, num_columns, "columns")) {
        if (c.elems != elems)
            throw make_error(ErrorCode::mismatch, "a column has ", c.elems,
                             " elements; it must have ", elems);
        ElementColumn& column = all.columns.emplace_back();
        column.data = c.data;
        column.elem_bytes = c.elem_bytes;
        if (c.stride_bytes != 0) column.stride_bytes = c.stride_bytes;
        column.type = scalar_type(c.type);
    }
    for (const datamover_room& room : values(results, num_columns, "results")) {
        const std::int64_t elem_bytes = all.columns[all.results.size()].elem_bytes;
        if (room.elems < 0)
            throw make_error(ErrorCode::invalid_argument, "a result has room for ", room.elems,
                             " elements");
        all.results.push_back({static_cast<std::byte*>(room.data),
                               geometry::multiply(room.elems, elem_bytes < 0 ? 0 : elem_bytes),
                               {}});
    }
    return all;
}

/// What `convert` gives; where it cannot, `refuse` tells the others so.
template <class Convert, class Refuse>
std::optional<Moved> converted(Convert&& convert, Refuse&& refuse) {
    std::optional<Error> error;
    try {
        return convert();
    } catch (const Error& e) {
        error = e;
    } catch (const std::exception&) {
        error = Error(ErrorCode::no_memory, "out of memory");
    }
    refuse(*error);
    return std::nullopt;
}

}  // namespace

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
        const auto args = converted([&] { return moved(d.elems(), num_columns, columns, results); },
                                    [&](const Error& error) { d.start_refused(error); });
        if (args) d.start(args->columns, args->results);
    });
}

int datamover_distribution_move(datamover_distribution* distribution, int64_t num_columns,
                                const datamover_column* columns, const datamover_room* results) {
    return guarded([&] {
        Distribution& d = value_of(distribution, "distribution");
        const auto args = converted([&] { return moved(d.elems(), num_columns, columns, results); },
                                    [&](const Error& error) { d.refuse(error); });
        if (args) d.move(args->columns, args->results);
    });
}

int datamover_distribution_reverse(datamover_distribution* distribution, int64_t num_columns,
                                   const datamover_column* values, const datamover_room* results,
                                   const char* op) {
    return guarded([&] {
        Distribution& d = value_of(distribution, "distribution");
        Op combine = Op::replace;
        const auto args = converted(
            [&] {
                if (op) combine = op_from_name(op);
                return moved(d.received(), num_columns, values, results);
            },
            [&](const Error& error) { d.refuse(error); });
        if (args) d.reverse(args->columns, args->results, combine);
    });
}
