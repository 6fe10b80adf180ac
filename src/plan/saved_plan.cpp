// SPDX-License-Identifier: BSD-3-Clause
// Saved plans: plans as words and bytes, and back with validated reading.
#include <string>
#include <tuple>
#include <variant>

#include "datamover/motion_plan.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "io/whole_file.hpp"
#include "serial.hpp"
#include "worked_out.hpp"

namespace datamover::plan {

std::int64_t PlanWriter::digest() const {
    geometry::WordDigest digest;
    for (const std::uint64_t word : words_) digest.put(static_cast<std::int64_t>(word));
    return digest.value();
}

std::int64_t PlanReader::get(std::int64_t lowest, std::int64_t highest, const char* what) {
    const std::int64_t value = get();
    if (value < lowest || value > highest) refuse(concat(what, " of ", value));
    return value;
}

std::vector<std::int64_t> PlanReader::get_all() {
    std::vector<std::int64_t> words(static_cast<std::size_t>(get_count(1)));
    for (std::int64_t& word : words) word = get();
    return words;
}

Point PlanReader::get_point() {
    return Point(std::span<const std::int64_t>(get_all()));
}

Region PlanReader::get_region() {
    const Point lo = get_point();
    const Point hi = get_point();
    return lo.dims() == 0 && hi.dims() == 0 ? Region{} : Region(lo, hi);
}

std::string PlanReader::get_text() {
    std::string text;
    for (const std::int64_t word : get_all()) {
        // It may stand in the text of an error.
        if (word < ' ' || word > '~') refuse("a text of other characters than ASCII's");
        text += static_cast<char>(word);
    }
    return text;
}

}  // namespace datamover::plan

namespace datamover {
namespace {

using plan::PlanReader;
using plan::PlanWriter;

/// The number of its kind comes before a layout.
namespace kind {
enum : std::int64_t { block_cyclic, floor_plan, index_list, flat_cyclic };
}

void write(const Layout& layout, PlanWriter& out) {
    if (const auto* bc = layout.block_cyclic()) {
        out.put_each(kind::block_cyclic, bc->shape(), bc->distribution(), bc->nprocs(), bc->grid(),
                     bc->first_process(), bc->column_major_grid(), bc->ranks(), bc->replicas());
    } else if (const auto* fp = layout.floor_plan()) {
        out.put_each(kind::floor_plan, std::int64_t{fp->dims()}, fp->nprocs(), fp->lower_corners(),
                     fp->upper_corners(), fp->owners());
    } else if (const auto* flat = layout.flat_cyclic()) {
        out.put_each(kind::flat_cyclic, flat->shape(), flat->block_elems(), flat->nprocs(),
                     flat->owners());
    } else {
        const IndexList& list = *layout.index_list();
        if (!list.knows_all() && list.nprocs() > 1)
            throw Error(
                ErrorCode::unsupported,
                "index lists of which every process knows only its own cannot be saved; make the "
                "plan again from the lists, or save one whose IndexList was made of all lists");
        out.put_each(kind::index_list, list.shape(), list.nprocs());
        for (std::int64_t rank = 0; rank < list.nprocs(); ++rank) out.put(list.indices_of(rank));
    }
}

/// The members of a term in the order in which they are saved.
template <class Term>
auto members_of(Term& term) {
    if constexpr (requires { term.source_block; })
        return std::tie(term.source_block, term.source_region, term.destination_block,
                        term.destination_region, term.axes, term.source_step, term.destination_step,
                        term.flip);
    else if constexpr (requires { term.partial; })
        return std::tie(term.source_region, term.destination_region, term.axes, term.partial,
                        term.reversed, term.adjoint, term.flip);
    else
        return std::tie(term.lower, term.upper, term.domain, term.periodic, term.corners,
                        term.reversed, term.colors, term.color);
}

/// The number of the kind of a term comes before it: its place in the variant.
void write(const PlanTerm& term, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(term.index()));
    std::visit(
        [&](const auto& of_kind) {
            std::apply([&](const auto&... members) { out.put_each(members...); },
                       members_of(of_kind));
        },
        term);
}

Layout read_layout(PlanReader& in) {
    const std::int64_t number = in.get(0, kind::flat_cyclic, "a kind of layout");
    if (number == kind::floor_plan) {
        const auto dims = static_cast<int>(in.get(1, max_dims, "a number of dimensions"));
        const std::int64_t nprocs = in.get();
        const auto lower = in.get_all(), upper = in.get_all(), owners = in.get_all();
        return FloorPlan(dims, lower, upper, owners, nprocs);
    }
    const Point shape = in.get_point();
    if (number == kind::flat_cyclic) {
        const std::int64_t block_elems = in.get(), nprocs = in.get();
        return FlatCyclic(shape, block_elems, nprocs, in.get_all());
    }
    if (number == kind::index_list) {
        std::vector<std::int64_t> offsets{0}, indices;
        for (std::int64_t left = in.get(); left > 0; --left) {
            const auto list = in.get_all();
            indices.insert(indices.end(), list.begin(), list.end());
            offsets.push_back(static_cast<std::int64_t>(indices.size()));
        }
        return IndexList(shape, offsets, indices);
    }
    const std::string distribution = in.get_text();
    const std::int64_t nprocs = in.get();
    BlockCyclicOptions options;
    options.grid = in.get_all();
    options.first_process = in.get_all();
    options.column_major_grid = in.get_flag();
    options.ranks = in.get_all();
    options.replicas = in.get();
    return BlockCyclic(shape, distribution, nprocs, options);
}

PlanTerm read_term(PlanReader& in) {
    PlanTerm term;
    const std::int64_t kind = in.get(0, std::variant_size_v<PlanTerm> - 1, "a kind of term");
    if (kind == 1) term = Redistribution{};
    if (kind == 2) term = HaloExchange{};
    std::visit(
        [&](auto& of_kind) {
            std::apply([&](auto&... members) { (in.read(members), ...); }, members_of(of_kind));
        },
        term);
    return term;
}

}  // namespace

const std::vector<std::int64_t>& plan::plan_digests(const MotionPlan& plan) {
    if (!plan.source().valid())
        throw Error(ErrorCode::invalid_argument, "a plan without layouts has no digest");
    return WorkedOut::of(plan).digests.get([&] {
        std::vector<std::int64_t> digests{plan.source().digest(), plan.destination().digest()};
        for (std::int64_t i = 0; i < plan.size(); ++i) {
            PlanWriter out;
            write(plan[i], out);
            digests.push_back(out.digest());
        }
        return digests;
    });
}

std::vector<std::uint8_t> MotionPlan::to_bytes() const {
    if (!source().valid())
        throw Error(ErrorCode::invalid_argument, "a plan without layouts cannot be saved");
    PlanWriter out;
    write(source(), out);
    write(destination(), out);
    out.put(size());
    for (const PlanTerm& term : terms_) write(term, out);
    return out.finish();
}

MotionPlan MotionPlan::from_bytes(std::span<const std::uint8_t> bytes) {
    PlanReader in(bytes);
    try {
        const Layout source = read_layout(in);
        MotionPlan plan(source, read_layout(in));
        for (std::int64_t left = in.get(); left > 0; --left) plan.add(read_term(in));
        if (in.left() != 0) in.refuse("more than a plan");
        return plan;
    } catch (const Error& e) {
        throw make_error(ErrorCode::invalid_argument, "a saved plan cannot be read: ", e.what());
    }
}

void MotionPlan::save(const std::string& path) const {
    io::write_whole_file(path, to_bytes());
}

MotionPlan MotionPlan::load(const std::string& path) {
    return from_bytes(io::read_whole_file(path));
}

}  // namespace datamover
