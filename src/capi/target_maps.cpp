// SPDX-License-Identifier: BSD-3-Clause
// C interface: target maps.
#include <algorithm>

#include "datamover/distribution.hpp"
#include "datamover/targets.hpp"
#include "distribute/overlaps.hpp"
#include "distribute/space_curve.hpp"
#include "distributions.hpp"
#include "geometry/make_error.hpp"

using namespace datamover;
using namespace datamover::capi;

struct datamover_target_map {
    TargetMap value;
};

namespace {

template <class Number>
TargetMap splitters(const void* numbers, std::int64_t nprocs) {
    const auto count = std::max<std::int64_t>(0, nprocs - 1);
    return TargetMap::splitters(values(static_cast<const Number*>(numbers), count, "values"),
                                nprocs);
}

TargetMap splitters(datamover_type type, const void* numbers, std::int64_t nprocs) {
    switch (scalar_type(type)) {
        case ScalarType::float64:
            return splitters<double>(numbers, nprocs);
        case ScalarType::int64:
            return splitters<std::int64_t>(numbers, nprocs);
        case ScalarType::uint64:
            return splitters<std::uint64_t>(numbers, nprocs);
        default:
            throw make_error(ErrorCode::wrong_type,
                             "splitters must be of float64, int64 or uint64, not of ",
                             scalar_name(scalar_type(type)));
    }
}

TargetMap cells(const datamover_cell_box& given_box, const char* order, const std::int64_t* owners,
                std::int64_t nprocs) {
    const int dims = checked_dims(given_box.dims);
    const CellBox box{values(given_box.lo, dims, "lo"), values(given_box.hi, dims, "hi"),
                      values(given_box.cells, dims, "cells"), given_box.periodic != 0};
    const CellOrder along = order ? cell_order_from_name(order) : CellOrder::row_major;
    if (!owners) return TargetMap::cells(box, along, nprocs);
    const auto table = values(owners, distribute::cell_total(box.cells), "owners");
    return TargetMap::cells(box, along, nprocs, table);
}

ElementKeys element_keys(const datamover_keys& given_keys) {
    if (given_keys.elems < 0 || given_keys.dims < 0)
        throw make_error(ErrorCode::invalid_argument, given_keys.elems, " elements with keys of ",
                         given_keys.dims, " numbers make no sense");
    ElementKeys keys;
    keys.data = memory_for(given_keys.elems, given_keys.data, "keys");
    keys.type = scalar_type(given_keys.type);
    keys.dims = given_keys.dims == 0 ? 1 : given_keys.dims;
    const std::int64_t key_bytes = scalar_bytes(keys.type) * keys.dims;
    keys.stride_bytes = given_keys.stride_bytes == 0 ? key_bytes : given_keys.stride_bytes;
    distribute::check_addresses(keys.data, given_keys.elems, keys.stride_bytes, key_bytes);
    return keys;
}

}  // namespace

int datamover_target_map_modulo(datamover_target_map** map, int64_t nprocs) {
    return guarded([&] { hand_out(map, "map", TargetMap::modulo(nprocs)); });
}

int datamover_target_map_block(datamover_target_map** map, int64_t first_key, int64_t total,
                               int64_t nprocs) {
    return guarded([&] { hand_out(map, "map", TargetMap::block(total, nprocs, first_key)); });
}

int datamover_target_map_splitters(datamover_target_map** map, datamover_type type,
                                   const void* values, int64_t nprocs) {
    return guarded([&] { hand_out(map, "map", splitters(type, values, nprocs)); });
}

int datamover_target_map_cells(datamover_target_map** map, const datamover_cell_box* box,
                               const char* order, const int64_t* owners, int64_t nprocs) {
    return guarded([&] { hand_out(map, "map", cells(given(box, "box"), order, owners, nprocs)); });
}

int datamover_target_map_ranks(const datamover_target_map* map, const datamover_keys* keys,
                               int64_t* ranks) {
    return guarded([&] {
        const TargetMap& m = value_of(map, "map");
        const std::int64_t elems = given(keys, "keys").elems;
        const ElementKeys described = element_keys(*keys);
        m.evaluate(described, 0, elems, memory_for(elems, ranks, "ranks"));
    });
}

int datamover_distribution_by_keys(datamover_distribution** distribution, MPI_Comm comm,
                                   const datamover_target_map* map, const datamover_keys* keys,
                                   const datamover_distribution_options* options) {
    return guarded([&] {
        struct Arguments {
            TargetList targets;
            DistributionOptions options;
        };
        const Arguments args = capi::collectively(comm, [&] {
            given(distribution, "distribution");
            Arguments read;
            read.options = options_of(options);
            read.targets.elems = given(keys, "keys").elems;
            read.targets.evaluate =
                [evaluated = value_of(map, "map"), described = element_keys(*keys)](
                    std::int64_t first, std::int64_t count, std::int64_t* targets) {
                    evaluated.evaluate(described, first, count, targets);
                };
            return read;
        });
        hand_out(distribution, "distribution", Distribution(comm, args.targets, args.options));
    });
}

int datamover_target_map_free(datamover_target_map** map) {
    return release(map, "map");
}
