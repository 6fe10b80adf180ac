// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of the decoding of address relations, compared with hand-written loops. Prints one JSON
// object per line. The arguments, if any, are prefixes of the case names to run, or `--index NAME
// FILE`: the elements that an irregular case gathers, as 64-bit numbers.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "relations_loops.hpp"
#include "relations_patterns.hpp"
#if __has_include(<mpi.h>)
#define DATAMOVER_BENCH_MPI 1
#include <mpi.h>
#endif

namespace {

using bench::Contest;
using bench::Memory;
using bench::Pattern;
using bench::pattern_of;
using bench::Redistribution;
using bench::redistributions;
using datamover::AddressRelation;
using datamover::AxisTable;
using datamover::CopyKernel;
using datamover::Encoding;
using datamover::Product;

constexpr Encoding encodings[] = {Encoding::pairs,      Encoding::blocks,  Encoding::runs,
                                  Encoding::dictionary, Encoding::product, Encoding::offsets};

AddressRelation relation_of(const Pattern& p, std::int64_t elem) {
    auto axis = [](std::int64_t n) {
        return std::make_shared<AxisTable>(AxisTable::interval(0, 0, n));
    };
    Product product;
    product.axes.push_back({axis(p.nj), p.fj * elem, p.tj * elem});
    product.axes.push_back({axis(p.ni), p.fi * elem, p.ti * elem});
    return AddressRelation::from_products({product}, elem, elem);
}

std::int64_t span_from(const Pattern& p) {
    return (p.ni - 1) * p.fi + (p.nj - 1) * p.fj + 1;
}
std::int64_t span_to(const Pattern& p) {
    return (p.ni - 1) * p.ti + (p.nj - 1) * p.tj + 1;
}

void add_relations(Contest& contest, const AddressRelation& relation, const void* from, void* to) {
    for (Encoding e : encodings) {
        const AddressRelation encoded = relation.encode(e);
        const CopyKernel kernel = encoded.kernel();
        contest.add(encoding_name(e), [=] { kernel(from, to); }, encoded.nbytes());
    }
}

/// Moves what process 0 keeps, its addresses computed anew.
void recompute(const Redistribution& r, std::int64_t n, const std::string& phase,
               const double* from, double* to) {
    std::int64_t position = 0;
    if (phase == "assembly")
        bench::for_each_pair(
            r, n, [&](std::int64_t source, std::int64_t) { to[position++] = from[source]; });
    else if (phase == "disassembly")
        bench::for_each_pair(r, n, [&](std::int64_t, std::int64_t destination) {
            to[destination] = from[position++];
        });
    else
        bench::for_each_pair(r, n, [&](std::int64_t source, std::int64_t destination) {
            to[destination] = from[source];
        });
}

#if defined(DATAMOVER_BENCH_MPI)
/// The pattern of one side as a derived datatype; released when nobody uses it any more.
std::shared_ptr<MPI_Datatype> datatype_of(const Pattern& p, bool of_source) {
    const auto i = static_cast<MPI_Aint>(of_source ? p.fi : p.ti);
    const auto j = static_cast<MPI_Aint>(of_source ? p.fj : p.tj);
    MPI_Datatype row = MPI_DATATYPE_NULL;
    auto* whole = new MPI_Datatype(MPI_DATATYPE_NULL);
    MPI_Type_create_hvector(static_cast<int>(p.ni), 1, i * 8, MPI_DOUBLE, &row);
    MPI_Type_create_hvector(static_cast<int>(p.nj), 1, j * 8, row, whole);
    MPI_Type_free(&row);
    MPI_Type_commit(whole);
    return {whole, [](MPI_Datatype* t) {
                MPI_Type_free(t);
                delete t;
            }};
}

void add_mpi_pack(Contest& contest, const Pattern& p, const std::string& phase, const double* from,
                  double* to) {
    const auto bytes = static_cast<int>(p.size() * 8);
    const auto source = datatype_of(p, true);
    const auto destination = datatype_of(p, false);
    const auto message = std::make_shared<Memory<double>>(p.size());
    contest.add("mpi_pack", [=] {
        void* packed = phase == "assembly" ? to : message->get();
        const void* arrived = phase == "disassembly" ? from : packed;
        int position = 0;
        if (phase != "disassembly")
            MPI_Pack(from, 1, *source, packed, bytes, &position, MPI_COMM_SELF);
        position = 0;
        if (phase != "assembly")
            MPI_Unpack(arrived, bytes, &position, to, 1, *destination, MPI_COMM_SELF);
    });
}
#endif

/// Loops from stride j to stride k, as many elements: what the paper compares with. One long loop
/// where that fits into memory, else several that begin a line further each.
void add_stride_loop(Contest& contest, const Pattern& p) {
    constexpr std::int64_t most_elems = std::int64_t{1} << 26;
    constexpr std::int64_t line_elems = 8;
    const std::int64_t j = p.fi;
    const std::int64_t k = p.ti;
    const std::int64_t n = std::min(p.size(), most_elems / std::max(j, k));
    const std::int64_t loops = p.size() / n;
    const auto from = std::make_shared<Memory<double>>(n * j + loops * line_elems);
    const auto to = std::make_shared<Memory<double>>(n * k + loops * line_elems);
    contest.add("stride", [=] {
        for (std::int64_t l = 0; l < loops; ++l) {
            const double* s = from->get() + l * line_elems;
            double* d = to->get() + l * line_elems;
            for (std::int64_t i = 0; i < n; ++i) d[i * k] = s[i * j];
        }
    });
}

void run_phase(const Redistribution& r, std::int64_t n, const std::string& phase) {
    const Pattern whole = pattern_of(r, n);
    const Pattern p = phase == "assembly"      ? whole.assembly()
                      : phase == "disassembly" ? whole.disassembly()
                                               : whole;
    const Memory<double> from(span_from(p));
    const Memory<double> to(span_to(p));
    const Memory<double> flat(p.size());
    double* const target = to.get();
    const double* const origin = from.get();
    Contest contest(r.name + ("-" + std::to_string(n)), phase, p.size() * 8);
    add_relations(contest, relation_of(p, 8), origin, target);
    bench::add_loops(contest, origin, target, p);
    contest.add("recompute",
                [&r, n, phase, origin, target] { recompute(r, n, phase, origin, target); });
    if (p.fi != 1 || p.ti != 1) add_stride_loop(contest, p);
    contest.add("memcpy", [origin, &flat, &p] {
        std::memcpy(flat.get(), origin, static_cast<std::size_t>(p.size()) * 8);
    });
#if defined(DATAMOVER_BENCH_MPI)
    add_mpi_pack(contest, whole, phase, origin, target);
#endif
    contest.run();
}

template <class T>
void run_dense_transpose(std::int64_t n) {
    const Pattern p{n, n, 1, n, n, 1};
    const Memory<T> from(n * n);
    const Memory<T> to(n * n);
    Contest contest("dense_transpose-" + std::to_string(n) + "-" + std::to_string(sizeof(T)),
                    "copy", n * n * static_cast<std::int64_t>(sizeof(T)));
    const CopyKernel kernel = relation_of(p, sizeof(T)).kernel();
    contest.add("product", [&] { kernel(from.get(), to.get()); });
    bench::add_loops<T>(contest, from.get(), to.get(), p);
    contest.add("memcpy", [&] {
        std::memcpy(to.get(), from.get(), static_cast<std::size_t>(n * n) * sizeof(T));
    });
    contest.run();
}

/// Runs of every length between 8 B and 16 KiB, one run apart.
void run_pieces(std::int64_t run_bytes) {
    const std::int64_t n = run_bytes / 8;
    const std::int64_t pieces = (std::int64_t{1} << 20) / run_bytes;
    const Pattern p{n, pieces, 1, 2 * n, 1, n};
    const Memory<double> from(span_from(p));
    const Memory<double> to(span_to(p));
    Contest contest("pieces-" + std::to_string(run_bytes), "assembly", p.size() * 8);
    add_relations(contest, relation_of(p, 8), from.get(), to.get());
    bench::add_loops(contest, static_cast<const double*>(from.get()), to.get(), p);
    contest.run();
}

/// Six faces of a 16³ box of doubles with one ghost layer: 2 KB each.
void run_halo() {
    constexpr std::int64_t edge = 18;
    const std::int64_t stride[3] = {edge * edge * 8, edge * 8, 8};
    const auto inner = std::make_shared<AxisTable>(AxisTable::interval(1, 1, 16));
    std::vector<Product> faces;
    for (int k = 0; k < 3; ++k)
        for (std::int64_t side = 0; side < 2; ++side) {
            Product face;
            face.source_offset_bytes = stride[k] * (side == 0 ? 1 : 16);
            face.destination_offset_bytes = stride[k] * (side == 0 ? 17 : 0);
            for (int a = 0; a < 3; ++a)
                if (a != k) face.axes.push_back({inner, stride[a], stride[a]});
            faces.push_back(face);
        }
    const Memory<double> from(edge * edge * edge);
    const Memory<double> to(edge * edge * edge);
    const Memory<double> flat(6 * 256);
    const AddressRelation relation = AddressRelation::from_products(faces, 8, 8);
    Contest contest("halo-16", "copy", relation.size() * 8);
    add_relations(contest, relation, from.get(), to.get());
    contest.add("loop:nested", [&] {
        auto at = [](const Memory<double>& m, std::int64_t i, std::int64_t j,
                     std::int64_t k) -> double& { return m.get()[(i * edge + j) * edge + k]; };
        for (std::int64_t a = 1; a <= 16; ++a)
            for (std::int64_t b = 1; b <= 16; ++b) {
                at(to, 17, a, b) = at(from, 1, a, b);
                at(to, 0, a, b) = at(from, 16, a, b);
                at(to, a, 17, b) = at(from, a, 1, b);
                at(to, a, 0, b) = at(from, a, 16, b);
                at(to, a, b, 17) = at(from, a, b, 1);
                at(to, a, b, 0) = at(from, a, b, 16);
            }
    });
    contest.add("memcpy", [&] { std::memcpy(flat.get(), from.get(), 6 * 256 * 8); });
    contest.run();
}

#if defined(DATAMOVER_BENCH_MPI)
/// Single elements at any places as a derived datatype.
std::shared_ptr<MPI_Datatype> datatype_of(const std::vector<std::int32_t>& index) {
    auto* made = new MPI_Datatype(MPI_DATATYPE_NULL);
    MPI_Type_create_indexed_block(static_cast<int>(index.size()), 1, index.data(), MPI_DOUBLE,
                                  made);
    MPI_Type_commit(made);
    return {made, [](MPI_Datatype* t) {
                MPI_Type_free(t);
                delete t;
            }};
}
#endif

/// message[i] = values[index[i]], as in the assembly of a sparse matrix times a vector.
void run_gather(const std::string& name, const std::vector<std::int64_t>& source,
                const std::vector<std::int64_t>& message, std::int64_t values) {
    const auto n = static_cast<std::int64_t>(source.size());
    const std::vector<std::int32_t> index(source.begin(), source.end());
    const Memory<double> from(values);
    const Memory<double> to(n);
    const AddressRelation relation = AddressRelation::from_pairs(source, message, 8, 8);
    Contest contest(name, "assembly", n * 8);
    add_relations(contest, relation, from.get(), to.get());
    const CopyKernel chosen = relation.kernel();
    contest.add("chosen", [&] { chosen(from.get(), to.get()); }, relation.nbytes());
    contest.add(
        "loop:int32",
        [&] {
            const double* s = from.get();
            double* d = to.get();
            for (std::int64_t i = 0; i < n; ++i) d[i] = s[index[static_cast<std::size_t>(i)]];
        },
        4 * n);
    const Memory<double> flat(n);
    contest.add("memcpy", [&] {
        std::memcpy(flat.get(), to.get(), static_cast<std::size_t>(n) * sizeof(double));
    });
#if defined(DATAMOVER_BENCH_MPI)
    const auto datatype = datatype_of(index);
    contest.add("mpi_pack", [&] {
        int position = 0;
        MPI_Pack(from.get(), 1, *datatype, to.get(), static_cast<int>(n * 8), &position,
                 MPI_COMM_SELF);
    });
#endif
    contest.run();
}

/// values[index[i]] += message[i], as the transposed matrix does it; destinations repeat.
void run_scatter_add(const std::string& name, const std::vector<std::int64_t>& destination,
                     const std::vector<std::int64_t>& message, std::int64_t values) {
    const auto n = static_cast<std::int64_t>(destination.size());
    const std::vector<std::int32_t> index(destination.begin(), destination.end());
    const Memory<double> from(n);
    const Memory<double> to(values);
    const AddressRelation relation = AddressRelation::from_pairs(message, destination, 8, 8);
    datamover::ElementUpdate add;
    add.op = datamover::Op::add;
    add.source_type = add.destination_type = datamover::ScalarType::float64;
    Contest contest(name, "disassembly", n * 8);
    for (Encoding e : encodings) {
        const AddressRelation encoded = relation.encode(e);
        const CopyKernel kernel = encoded.kernel(add);
        contest.add(
            encoding_name(e), [&, kernel] { kernel(from.get(), to.get()); }, encoded.nbytes());
    }
    contest.add(
        "loop:int32",
        [&] {
            const double* s = from.get();
            double* d = to.get();
            for (std::int64_t i = 0; i < n; ++i) d[index[static_cast<std::size_t>(i)]] += s[i];
        },
        4 * n);
    contest.run();
}

/// The inspector, on pairs ordered by destination and on the same in any order, sorted first.
void run_inspector(const std::string& name, const std::vector<std::int64_t>& source,
                   const std::vector<std::int64_t>& message) {
    std::vector<std::int64_t> order = message;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
    std::vector<std::int64_t> shuffled;
    for (const std::int64_t k : order) shuffled.push_back(source[static_cast<std::size_t>(k)]);
    const auto bytes = static_cast<std::int64_t>(source.size()) * 8;
    Contest ordered(name, "encode", bytes);
    ordered.add("chosen", [&] { AddressRelation::from_pairs(source, message, 8, 8); });
    ordered.run();
    Contest unordered(name, "encode_unordered", bytes);
    unordered.add("chosen", [&] {
        AddressRelation::from_pairs(shuffled, order, 8, 8).ordered_by_destination();
    });
    unordered.run();
}

void run_irregular(const std::string& name, const std::vector<std::int64_t>& source,
                   std::int64_t values) {
    std::vector<std::int64_t> message(source.size());
    std::iota(message.begin(), message.end(), std::int64_t{0});
    run_gather(name, source, message, values);
    run_scatter_add(name, source, message, values);
    run_inspector(name, source, message);
}

/// Every element refers to a random neighbour at most `reach` elements away.
void run_random(const std::string& name, std::int64_t n, std::int64_t reach) {
    std::mt19937_64 random(7);
    std::vector<std::int64_t> source(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t low = std::max<std::int64_t>(0, i - reach);
        const std::int64_t high = std::min(n - 1, i + reach);
        source[static_cast<std::size_t>(i)] =
            std::uniform_int_distribution<std::int64_t>(low, high)(random);
    }
    run_irregular(name, source, n);
}

/// The 64-bit indices in a file, in this machine's byte order.
void run_file(const std::string& name, const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::int64_t> index;
    std::int64_t one = 0;
    while (file.read(reinterpret_cast<char*>(&one), sizeof one)) index.push_back(one);
    if (!index.empty())
        run_irregular(name, index, *std::max_element(index.begin(), index.end()) + 1);
}

/// The inspector on ordered pairs that are regular.
void run_encode(const Redistribution& r, std::int64_t n) {
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
    const Pattern p = pattern_of(r, n);
    for (std::int64_t j = 0; j < p.nj; ++j)
        for (std::int64_t i = 0; i < p.ni; ++i) {
            source.push_back(i * p.fi + j * p.fj);
            destination.push_back(i * p.ti + j * p.tj);
        }
    Contest contest(r.name + ("-" + std::to_string(n)), "encode", p.size() * 8);
    contest.add("chosen", [&] { AddressRelation::from_pairs(source, destination, 8, 8); });
    contest.add("product", [&] { relation_of(p, 8); });
    contest.run();
}

}  // namespace

int main(int argc, char** argv) {
#if defined(DATAMOVER_BENCH_MPI)
    MPI_Init(&argc, &argv);
#endif
    const bool from_file = argc == 4 && std::strcmp(argv[1], "--index") == 0;
    if (from_file) run_file(argv[2], argv[3]);
    auto wanted = [&](const std::string& name) {
        if (from_file) return false;
        for (int a = 1; a < argc; ++a)
            if (name.rfind(argv[a], 0) == 0) return true;
        return argc <= 1;
    };
    for (const std::int64_t n : {1024, 2048, 4096})
        for (const Redistribution& r : redistributions) {
            if (!wanted(r.name + ("-" + std::to_string(n)))) continue;
            for (const char* phase : {"assembly", "disassembly", "copy"}) run_phase(r, n, phase);
            run_encode(r, n);
        }
    for (const std::int64_t n : {1024, 2048, 4096, 8192})
        if (wanted("dense_transpose-" + std::to_string(n))) {
            run_dense_transpose<float>(n);
            run_dense_transpose<double>(n);
        }
    for (const std::int64_t b : {8, 24, 64, 256, 1024, 4096, 16384})
        if (wanted("pieces-" + std::to_string(b))) run_pieces(b);
    if (wanted("halo-16")) run_halo();
    if (wanted("mesh_ordered")) run_random("mesh_ordered", 1 << 20, 2000);
    if (wanted("mesh_shuffled")) run_random("mesh_shuffled", 1 << 20, 1 << 20);
#if defined(DATAMOVER_BENCH_MPI)
    MPI_Finalize();
#endif
    return 0;
}
