// SPDX-License-Identifier: BSD-3-Clause
// Arguments of a matrix copy from all processes, and which argument of which process is wrong.
#include "matrix_arguments.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

using Matrix = MatrixArguments CopyArguments::*;
using Position = ArgumentPosition;

/// Entries of a descriptor, as C counts them.
enum DescriptorEntry { dtype, ctxt, m_, n_, mb_, nb_, rsrc_, csrc_, lld_, entry_count };
constexpr std::array<const char*, entry_count> entry_names{"DTYPE_", "CTXT_", "M_",    "N_",  "MB_",
                                                           "NB_",    "RSRC_", "CSRC_", "LLD_"};

// ---------------------------------------------------------------- told to all

using M = MatrixArguments;

/// The members of M, which are words. Except for NULL, an address is valid only on its process.
using MatrixWords = std::array<std::int64_t, sizeof(M) / sizeof(std::int64_t)>;
static_assert(std::has_unique_object_representations_v<M>);

void append(std::vector<std::int64_t>& words, const M& matrix) {
    const auto all = std::bit_cast<MatrixWords>(matrix);
    words.insert(words.end(), all.begin(), all.end());
}

M matrix_from(const std::int64_t* words) {
    MatrixWords all;
    std::copy_n(words, all.size(), all.begin());
    return std::bit_cast<M>(all);
}

// ---------------------------------------------------------------- one matrix

/// One matrix of the call, with the words for its arguments.
struct Subject {
    Matrix matrix;
    const char* name;
    int data_position;

    int entry_position(int entry) const {
        return 100 * (data_position + Position::descriptor_after_data) + entry + 1;
    }
    [[noreturn]] void refuse_entry(ErrorCode code, int entry, const std::string& rest) const {
        throw WrongArgument(code,
                            concat(entry_names[static_cast<std::size_t>(entry)],
                                   " of the descriptor of matrix ", name, rest),
                            entry_position(entry));
    }
};

/// The first process that knows a matrix; none: their number.
std::size_t first_that_knows(const std::vector<CopyArguments>& all, Matrix matrix) {
    const auto found =
        std::ranges::find_if(all, [&](const CopyArguments& c) { return (c.*matrix).known(); });
    return static_cast<std::size_t>(found - all.begin());
}

void check_same_everywhere(const std::vector<CopyArguments>& all, const Subject& s,
                           std::size_t first) {
    const auto check_same = [&](const std::string& what, int position, auto&& value_of) {
        const std::int64_t expected = std::invoke(value_of, all[first].*s.matrix);
        for (std::size_t rank = first; rank < all.size(); ++rank) {
            const MatrixArguments& matrix = all[rank].*s.matrix;
            const std::int64_t value = std::invoke(value_of, matrix);
            if (!matrix.known() || value == expected) continue;
            throw WrongArgument(
                ErrorCode::mismatch,
                concat(what, " of matrix ", s.name, " is ", value, " on process ", rank, " and ",
                       expected, " on process ", first,
                       "; it must be the same on all processes of the matrix's grid"),
                position);
        }
    };
    check_same("the section's first row", s.data_position + Position::row_after_data, &M::row);
    check_same("the section's first column", s.data_position + Position::column_after_data,
               &M::column);
    check_same("the number of grid rows", s.entry_position(ctxt), &M::nprow);
    check_same("the number of grid columns", s.entry_position(ctxt), &M::npcol);
    for (const int entry : {m_, n_, mb_, nb_, rsrc_, csrc_}) {
        const auto i = static_cast<std::size_t>(entry);
        check_same(concat(entry_names[i], " of the descriptor"), s.entry_position(entry),
                   [i](const M& m) { return m.descriptor[i]; });
    }
}

void check_descriptor(const MatrixArguments& matrix, const Subject& s) {
    const auto require = [&](bool holds, int entry, const std::string& rule) {
        if (!holds)
            s.refuse_entry(ErrorCode::invalid_argument, entry,
                           concat(" is ", matrix.descriptor[static_cast<std::size_t>(entry)],
                                  "; it must be ", rule));
    };
    require(matrix.descriptor[m_] >= 0, m_, "at least 0");
    require(matrix.descriptor[n_] >= 0, n_, "at least 0");
    require(matrix.descriptor[mb_] >= 1, mb_, "at least 1");
    require(matrix.descriptor[nb_] >= 1, nb_, "at least 1");
    require(matrix.descriptor[rsrc_] >= 0 && matrix.descriptor[rsrc_] < matrix.nprow, rsrc_,
            concat("at least 0 and less than the ", matrix.nprow, " grid rows"));
    require(matrix.descriptor[csrc_] >= 0 && matrix.descriptor[csrc_] < matrix.npcol, csrc_,
            concat("at least 0 and less than the ", matrix.npcol, " grid columns"));
}

void check_range(std::int64_t first, std::int64_t count, std::int64_t extent,
                 const std::string& what, const Subject& s, int position) {
    if (first >= 1 && first - 1 <= extent - count) return;
    throw WrongArgument(
        ErrorCode::out_of_range,
        concat("the section's ", count, " ", what, " from ", first,
               " on (counted from 1) are not inside matrix ", s.name, ", which has ", extent),
        position);
}

void check_section(const CopyArguments& copy, const MatrixArguments& matrix, const Subject& s) {
    check_range(matrix.row, copy.rows(s.matrix), matrix.descriptor[m_], "rows", s,
                s.data_position + Position::row_after_data);
    check_range(matrix.column, copy.columns(s.matrix), matrix.descriptor[n_], "columns", s,
                s.data_position + Position::column_after_data);
}

/// How many of the first `count` indices of a dimension, distributed in blocks, a process of the
/// grid has. ScaLAPACK's NUMROC.
std::int64_t held_of(std::int64_t count, std::int64_t block, std::int64_t coordinate,
                     std::int64_t first_process, std::int64_t procs) {
    const std::int64_t place = (coordinate - first_process + procs) % procs;
    return AxisSet{place * block, block, procs * block, count}.size();
}

void check_memory(const CopyArguments& copy, const MatrixArguments& matrix, const Subject& s,
                  std::int64_t rank) {
    const auto& d = matrix.descriptor;
    const auto rows = [&](std::int64_t count) {
        return held_of(count, d[mb_], matrix.grid_row, d[rsrc_], matrix.nprow);
    };
    const auto columns = [&](std::int64_t count) {
        return held_of(count, d[nb_], matrix.grid_column, d[csrc_], matrix.npcol);
    };
    const std::int64_t local_rows = rows(d[m_]);
    if (d[lld_] < local_rows || d[lld_] < 0)
        s.refuse_entry(ErrorCode::invalid_argument, lld_,
                       concat(" is ", d[lld_], " on process ", rank, ", which holds ", local_rows,
                              " rows; it must be at least that"));
    const std::int64_t held =
        (rows(matrix.row - 1 + copy.rows(s.matrix)) - rows(matrix.row - 1)) *
        (columns(matrix.column - 1 + copy.columns(s.matrix)) - columns(matrix.column - 1));
    if (!matrix.data && held > 0)
        throw WrongArgument(ErrorCode::invalid_argument,
                            concat("matrix ", s.name, " is NULL on process ", rank,
                                   ", which holds ", held, " elements of the section"),
                            s.data_position);
}

/// Every place of the grid is held by one process that calls.
void check_grid(const std::vector<CopyArguments>& all, const Subject& s, std::size_t first) {
    const MatrixArguments& known = all[first].*s.matrix;
    const auto refuse = [&](ErrorCode code, std::int64_t place, const std::string& fault) {
        throw WrongArgument(code,
                            concat("row ", place / known.npcol, ", column ", place % known.npcol,
                                   " of the grid of matrix ", s.name, " is held by ", fault),
                            Position::context);
    };
    const auto ranks = ranks_of_grid(all, s.matrix);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const MatrixArguments& matrix = all[rank].*s.matrix;
        if (!matrix.in_grid()) continue;
        const std::int64_t holder = ranks[static_cast<std::size_t>(matrix.place())];
        if (holder != static_cast<std::int64_t>(rank))
            refuse(ErrorCode::mismatch, matrix.place(),
                   concat("processes ", rank, " and ", holder));
    }
    const auto missing = std::ranges::find(ranks, -1) - ranks.begin();
    if (missing < std::ssize(ranks))
        refuse(ErrorCode::invalid_argument, missing, "none of the processes that call");
}

void check_matrix(const std::vector<CopyArguments>& all, const Subject& subject) {
    const std::size_t first = first_that_knows(all, subject.matrix);
    if (first == all.size())
        subject.refuse_entry(ErrorCode::invalid_argument, ctxt,
                             " is not a valid BLACS context on any calling process");
    check_same_everywhere(all, subject, first);
    check_descriptor(all[first].*subject.matrix, subject);
    check_section(all[first], all[first].*subject.matrix, subject);
    check_grid(all, subject, first);
    for (std::size_t rank = first; rank < all.size(); ++rank)
        if (const MatrixArguments& matrix = all[rank].*subject.matrix; matrix.in_grid())
            check_memory(all[rank], matrix, subject, static_cast<std::int64_t>(rank));
}

// ---------------------------------------------------------------- the whole call

void check_size(const std::vector<CopyArguments>& all, std::int64_t CopyArguments::* size,
                const char* name, int position) {
    const std::int64_t expected = all[0].*size;
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank].*size != expected)
            throw WrongArgument(
                ErrorCode::mismatch,
                concat(name, " is ", all[rank].*size, " on process ", rank, " and ", expected,
                       " on process 0; it must be the same on all processes"),
                position);
    if (expected < 0)
        throw WrongArgument(ErrorCode::invalid_argument,
                            concat(name, " is ", expected, "; it must be at least 0"), position);
}

}  // namespace

std::vector<std::int64_t> words_of(const CopyArguments& copy) {
    if (copy.nothing_to_copy()) return {};
    const MoverOptions& options = copy.options;
    std::vector<std::int64_t> words(options.transport.begin(), options.transport.end());
    words.insert(
        words.end(),
        {copy.m, copy.n, copy.elem_bytes, copy.transposed, static_cast<std::int64_t>(copy.part),
         static_cast<std::int64_t>(copy.type), static_cast<std::int64_t>(options.op),
         options.conjugate, options.max_bytes, options.check});
    for (const auto& factor : {options.alpha, options.beta})
        for (const double part : {factor.real(), factor.imag()})
            words.push_back(std::bit_cast<std::int64_t>(part));
    append(words, copy.a);
    append(words, copy.b);
    return words;
}

std::vector<CopyArguments> allgather_arguments(const mpi::ProcessGroup& group,
                                               const CopyArguments& mine) {
    std::vector<std::int64_t> words{mine.m, mine.n, mine.elem_bytes};
    append(words, mine.a);
    append(words, mine.b);
    std::vector<CopyArguments> all;
    for (const auto& theirs : group.gather(words)) {
        CopyArguments told = mine;  // what is not told is compared by the mover
        told.m = theirs[0], told.n = theirs[1], told.elem_bytes = theirs[2];
        told.a = matrix_from(&theirs[3]), told.b = matrix_from(&theirs[3 + MatrixWords{}.size()]);
        all.push_back(std::move(told));
    }
    return all;
}

void check_arguments(const std::vector<CopyArguments>& all) {
    check_size(all, &CopyArguments::elem_bytes, "the size of an element in bytes", 0);
    if (std::ranges::all_of(all, std::mem_fn(&CopyArguments::nothing_to_copy))) return;
    check_size(all, &CopyArguments::m, "m", Position::m);
    check_size(all, &CopyArguments::n, "n", Position::n);
    check_matrix(all, {&CopyArguments::a, "A", Position::data_a});
    check_matrix(all, {&CopyArguments::b, "B", Position::data_b});
}

std::vector<std::int64_t> ranks_of_grid(const std::vector<CopyArguments>& all, Matrix matrix) {
    const MatrixArguments& known = known_matrix(all, matrix);
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(known.nprow * known.npcol), -1);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (const MatrixArguments& told = all[rank].*matrix; told.in_grid())
            ranks[static_cast<std::size_t>(told.place())] = static_cast<std::int64_t>(rank);
    return ranks;
}

const MatrixArguments& known_matrix(const std::vector<CopyArguments>& all, Matrix matrix) {
    return all[first_that_knows(all, matrix)].*matrix;
}

}  // namespace datamover
