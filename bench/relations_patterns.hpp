// SPDX-License-Identifier: BSD-3-Clause
// Redistributions of the paper on compact address relations, and the memory that they use.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace bench {

/// A two-dimensional pattern of elements; strides in elements, i goes fastest in a message.
struct Pattern {
    std::int64_t ni, nj;
    std::int64_t fi, fj;  ///< from
    std::int64_t ti, tj;  ///< to

    std::int64_t size() const { return ni * nj; }
    Pattern assembly() const { return {ni, nj, fi, fj, 1, ni}; }
    Pattern disassembly() const { return {ni, nj, 1, ni, ti, tj}; }
};

/// Memory that starts at a page, all of it touched.
template <class T>
class Memory {
public:
    explicit Memory(std::int64_t elems)
        : data_(static_cast<T*>(std::aligned_alloc(
                    4096, (static_cast<std::size_t>(elems) * sizeof(T) + 4095) / 4096 * 4096)),
                std::free) {
        for (std::int64_t i = 0; i < elems; ++i) data_.get()[i] = static_cast<T>(i);
    }
    T* get() const { return data_.get(); }

private:
    std::unique_ptr<T, void (*)(void*)> data_;
};

/// HPF's BLOCK or CYCLIC over four processes, as run-time values.
struct Migration {
    std::int64_t block;
    std::int64_t processes;

    std::int64_t owner(std::int64_t g) const { return g / block % processes; }
    std::int64_t local(std::int64_t g) const { return g / (block * processes) * block + g % block; }
    std::int64_t global(std::int64_t l) const {
        return l / block * block * processes + l % block;  // on process 0
    }
};

/// One of the paper's redistributions (section 3): distributions of rows and of columns on either
/// side, column-major, and whether the destination is stored transposed.
struct Redistribution {
    const char* name;
    bool source_by_rows;
    bool source_cyclic;
    bool destination_by_rows;
    bool destination_cyclic;
    bool transposed;

    Migration rows(bool by_rows, bool cyclic, std::int64_t n) const {
        return by_rows ? Migration{cyclic ? 1 : n / 4, 4} : Migration{n, 1};
    }
    Migration columns(bool by_rows, bool cyclic, std::int64_t n) const {
        return rows(!by_rows, cyclic, n);
    }
};

inline constexpr Redistribution redistributions[] = {
    {"block_rows-block_cols", true, false, false, false, false},
    {"block-cyclic", true, false, true, true, false},
    {"cyclic-block", true, true, true, false, false},
    {"transpose", false, true, true, true, true},
};

/// The pairs from process 0 to process 0, as strides in elements.
inline Pattern pattern_of(const Redistribution& r, std::int64_t n) {
    const std::int64_t q = n / 4;
    const std::string name = r.name;
    if (name == "block_rows-block_cols") return {q, q, 1, q, 1, n};
    if (name == "block-cyclic") return {q / 4, n, 4, q, 1, q};
    if (name == "cyclic-block") return {q / 4, n, 1, q, 4, q};
    return {q, q, 4, n, n, 4};
}

/// Goes through the source's elements and computes for each where it goes, as code without an
/// inspector does. Calls visit(source, destination), in elements, for those that process 0 keeps.
template <class Visit>
void for_each_pair(const Redistribution& r, std::int64_t n, Visit&& visit) {
    const Migration sr = r.rows(r.source_by_rows, r.source_cyclic, n);
    const Migration sc = r.columns(r.source_by_rows, r.source_cyclic, n);
    const Migration dr = r.rows(r.destination_by_rows, r.destination_cyclic, n);
    const Migration dc = r.columns(r.destination_by_rows, r.destination_cyclic, n);
    const std::int64_t local_rows = n / sr.processes;
    const std::int64_t local_columns = n / sc.processes;
    const std::int64_t leading = r.transposed ? n / dc.processes : n / dr.processes;
    for (std::int64_t c = 0; c < local_columns; ++c) {
        const std::int64_t gc = sc.global(c);
        if (dc.owner(gc) != 0) continue;
        for (std::int64_t l = 0; l < local_rows; ++l) {
            const std::int64_t gl = sr.global(l);
            if (dr.owner(gl) != 0) continue;
            visit(l + c * local_rows, r.transposed ? dc.local(gc) + dr.local(gl) * leading
                                                   : dr.local(gl) + dc.local(gc) * leading);
        }
    }
}

}  // namespace bench
