// SPDX-License-Identifier: BSD-3-Clause
// How fast are address relations decoded, beside the loops that one would write by hand?
// Prints one JSON object per line; the arguments, if any, are the beginnings of case names to run.
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include "datamover/address_relation.hpp"
#include "relations_loops.hpp"
#if __has_include(<mpi.h>)
#define DATAMOVER_BENCH_MPI 1
#include <mpi.h>
#endif

namespace {

using bench::Contest;
using bench::Pattern;
using datamover::AddressRelation;
using datamover::AxisTable;
using datamover::CopyKernel;
using datamover::Encoding;
using datamover::Product;

constexpr Encoding encodings[] = {Encoding::pairs,      Encoding::blocks,  Encoding::runs,
                                  Encoding::dictionary, Encoding::product, Encoding::offsets};

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

/// HPF's BLOCK or CYCLIC over four processes, as run-time values.
struct Distribution {
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

    Distribution rows(bool by_rows, bool cyclic, std::int64_t n) const {
        return by_rows ? Distribution{cyclic ? 1 : n / 4, 4} : Distribution{n, 1};
    }
    Distribution columns(bool by_rows, bool cyclic, std::int64_t n) const {
        return rows(!by_rows, cyclic, n);
    }
};

constexpr Redistribution redistributions[] = {
    {"block_rows-block_cols", true, false, false, false, false},
    {"block-cyclic", true, false, true, true, false},
    {"cyclic-block", true, true, true, false, false},
    {"transpose", false, true, true, true, true},
};

/// The pairs from process 0 to process 0, as strides in elements.
Pattern pattern_of(const Redistribution& r, std::int64_t n) {
    const std::int64_t q = n / 4;
    const std::string name = r.name;
    if (name == "block_rows-block_cols") return {q, q, 1, q, 1, n};
    if (name == "block-cyclic") return {q / 4, n, 4, q, 1, q};
    if (name == "cyclic-block") return {q / 4, n, 1, q, 4, q};
    return {q, q, 4, n, n, 4};
}

/// Goes through the source's elements and computes for each where it goes, as code without an
/// inspector does. Moves those that process 0 keeps.
void recompute(const Redistribution& r, std::int64_t n, const std::string& phase,
               const double* from, double* to) {
    const Distribution sr = r.rows(r.source_by_rows, r.source_cyclic, n);
    const Distribution sc = r.columns(r.source_by_rows, r.source_cyclic, n);
    const Distribution dr = r.rows(r.destination_by_rows, r.destination_cyclic, n);
    const Distribution dc = r.columns(r.destination_by_rows, r.destination_cyclic, n);
    const std::int64_t local_rows = n / sr.processes;
    const std::int64_t local_columns = n / sc.processes;
    const std::int64_t leading = r.transposed ? n / dc.processes : n / dr.processes;
    std::int64_t position = 0;
    for (std::int64_t c = 0; c < local_columns; ++c) {
        const std::int64_t gc = sc.global(c);
        if (dc.owner(gc) != 0) continue;
        for (std::int64_t l = 0; l < local_rows; ++l) {
            const std::int64_t gl = sr.global(l);
            if (dr.owner(gl) != 0) continue;
            const std::int64_t source = l + c * local_rows;
            const std::int64_t destination = r.transposed ? dc.local(gc) + dr.local(gl) * leading
                                                          : dr.local(gl) + dc.local(gc) * leading;
            to[phase == "assembly" ? position : destination] =
                from[phase == "disassembly" ? position : source];
            ++position;
        }
    }
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

/// Ghost values of an unstructured mesh: every element refers to neighbours near itself.
void run_irregular(const std::string& name, std::int64_t n, std::int64_t reach) {
    std::mt19937_64 random(7);
    std::vector<std::int64_t> source(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t low = std::max<std::int64_t>(0, i - reach);
        const std::int64_t high = std::min(n - 1, i + reach);
        source[static_cast<std::size_t>(i)] =
            std::uniform_int_distribution<std::int64_t>(low, high)(random);
    }
    std::vector<std::int64_t> destination(source.size());
    std::iota(destination.begin(), destination.end(), std::int64_t{0});
    const std::vector<std::int32_t> index(source.begin(), source.end());
    const Memory<double> from(n);
    const Memory<double> to(n);
    const AddressRelation relation = AddressRelation::from_pairs(source, destination, 8, 8);
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
    contest.run();
    Contest inspector(name, "encode", n * 8);
    inspector.add("chosen", [&] { AddressRelation::from_pairs(source, destination, 8, 8); });
    inspector.run();
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
    auto wanted = [&](const std::string& name) {
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
    if (wanted("mesh_ordered")) run_irregular("mesh_ordered", 1 << 20, 2000);
    if (wanted("mesh_shuffled")) run_irregular("mesh_shuffled", 1 << 20, 1 << 20);
#if defined(DATAMOVER_BENCH_MPI)
    MPI_Finalize();
#endif
    return 0;
}
