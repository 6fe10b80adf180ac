// SPDX-License-Identifier: BSD-3-Clause
// Pieces of arrays in hand-written programs: their description, packing and MPI datatypes.
#include "transports_piece.hpp"

#include <cstring>
#include <type_traits>

namespace bench {
namespace {

template <class Copy>
void equal_runs(const Piece& p, Copy&& copy) {
    for (const std::int64_t outer : p.outer)
        for (std::int64_t row = 0; row < p.rows; ++row) {
            const std::int64_t at = outer + row * p.row_step;
            if (p.listed.empty())
                for (std::int64_t i = 0; i < p.runs; ++i) copy(at + i * p.run_step);
            else
                for (const std::int64_t offset : p.listed) copy(at + offset);
        }
}

/// Calls copy(offset, constant or variable length) for each run.
template <class Copy>
void runs_by_length(const Piece& p, Copy&& copy) {
    const auto fixed = [&](auto bytes) { equal_runs(p, [&](auto at) { copy(at, bytes); }); };
    if (!p.lengths.empty())
        return for_each_run(
            p, [&](auto at, auto bytes) { copy(at, static_cast<std::size_t>(bytes)); });
    switch (p.run_bytes) {
        case 4:
            return fixed(std::integral_constant<std::size_t, 4>{});
        case 8:
            return fixed(std::integral_constant<std::size_t, 8>{});
        case 12:
            return fixed(std::integral_constant<std::size_t, 12>{});
        case 16:
            return fixed(std::integral_constant<std::size_t, 16>{});
        case 24:
            return fixed(std::integral_constant<std::size_t, 24>{});
        case 40:
            return fixed(std::integral_constant<std::size_t, 40>{});
        default:
            return fixed(static_cast<std::size_t>(p.run_bytes));
    }
}

MPI_Datatype element_type(std::int64_t elem_bytes) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const bool doubles = elem_bytes % 8 == 0;
    MPI_Type_contiguous(static_cast<int>(elem_bytes / (doubles ? 8 : 4)),
                        doubles ? MPI_DOUBLE : MPI_FLOAT, &type);
    return type;
}

/// Replaces a type by one that is made of it.
template <class Make>
void wrap(MPI_Datatype& type, Make&& make) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    make(&made);
    MPI_Type_free(&type);
    type = made;
}

std::vector<MPI_Aint> displacements(const std::vector<std::int64_t>& offsets) {
    return {offsets.begin(), offsets.end()};
}

void wrap_row(MPI_Datatype& type, const Piece& p) {
    const auto elems = [&](std::int64_t bytes) { return static_cast<int>(bytes / p.elem_bytes); };
    const auto at = displacements(p.listed);
    const int count = static_cast<int>(at.size());
    if (!p.lengths.empty()) {
        std::vector<int> lengths;
        for (const std::int64_t bytes : p.lengths) lengths.push_back(elems(bytes));
        wrap(type, [&](MPI_Datatype* made) {
            MPI_Type_create_hindexed(count, lengths.data(), at.data(), type, made);
        });
    } else if (!p.listed.empty()) {
        wrap(type, [&](MPI_Datatype* made) {
            MPI_Type_create_hindexed_block(count, elems(p.run_bytes), at.data(), type, made);
        });
    } else {
        wrap(type, [&](MPI_Datatype* made) {
            MPI_Type_create_hvector(static_cast<int>(p.runs), elems(p.run_bytes), p.run_step, type,
                                    made);
        });
    }
}

MPI_Datatype piece_type(const Piece& p) {
    MPI_Datatype type = element_type(p.elem_bytes);
    wrap_row(type, p);
    if (p.rows > 1)
        wrap(type, [&](MPI_Datatype* made) {
            MPI_Type_create_hvector(static_cast<int>(p.rows), 1, p.row_step, type, made);
        });
    const auto at = displacements(p.outer);
    if (at.size() > 1 || at[0] != 0)
        wrap(type, [&](MPI_Datatype* made) {
            MPI_Type_create_hindexed_block(static_cast<int>(at.size()), 1, at.data(), type, made);
        });
    return type;
}

}  // namespace

std::int64_t Piece::bytes() const {
    std::int64_t row = 0;
    for (const std::int64_t length : lengths) row += length;
    if (lengths.empty())
        row = run_bytes * (listed.empty() ? runs : static_cast<std::int64_t>(listed.size()));
    return row * rows * static_cast<std::int64_t>(outer.size());
}

Piece box_piece(std::size_t array, std::int64_t elem_bytes, const std::vector<std::int64_t>& shape,
                const std::vector<std::int64_t>& begin, const std::vector<std::int64_t>& extent) {
    // One element for each dimension that is missing before.
    constexpr std::size_t most = 4;
    const std::size_t missing = most - shape.size();
    std::int64_t extents[most] = {1, 1, 1, 1}, steps[most] = {0, 0, 0, 0};
    std::int64_t step = elem_bytes, first = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
        extents[missing + d] = extent[d];
        steps[missing + d] = step;
        first += begin[d] * step;
        step *= shape[d];
    }
    Piece p;
    p.array = array;
    p.elem_bytes = elem_bytes;
    p.outer.clear();
    for (std::int64_t i = 0; i < extents[0]; ++i) p.outer.push_back(first + i * steps[0]);
    p.rows = extents[1];
    p.row_step = steps[1];
    p.runs = extents[2];
    p.run_step = steps[2];
    p.run_bytes = extents[3] * elem_bytes;
    return p;
}

std::byte* pack(const Piece& piece, const std::byte* array, std::byte* to) {
    runs_by_length(piece, [&](std::int64_t at, auto bytes) {
        std::memcpy(to, array + at, bytes);
        to += bytes;
    });
    return to;
}

const std::byte* unpack(const Piece& piece, std::byte* array, const std::byte* from) {
    runs_by_length(piece, [&](std::int64_t at, auto bytes) {
        std::memcpy(array + at, from, bytes);
        from += bytes;
    });
    return from;
}

MPI_Datatype datatype_of(const std::vector<Piece>& pieces, const std::vector<std::byte*>& arrays) {
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Aint> bases;
    for (const Piece& p : pieces) {
        types.push_back(piece_type(p));
        MPI_Get_address(arrays[p.array], &bases.emplace_back());
    }
    const std::vector<int> ones(pieces.size(), 1);
    MPI_Datatype all = MPI_DATATYPE_NULL;
    MPI_Type_create_struct(static_cast<int>(pieces.size()), ones.data(), bases.data(), types.data(),
                           &all);
    MPI_Type_commit(&all);
    for (MPI_Datatype& type : types) MPI_Type_free(&type);
    return all;
}

}  // namespace bench
