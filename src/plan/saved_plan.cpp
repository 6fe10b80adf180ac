// SPDX-License-Identifier: BSD-3-Clause
// Saved plans: plans as words and bytes, and back with validated reading.
#include <algorithm>
#include <cstring>
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

void PlanWriter::put(std::span<const std::int64_t> words) {
    put(static_cast<std::int64_t>(words.size()));
    for (const std::int64_t word : words) put(word);
}

void PlanWriter::put(const std::vector<int>& axes) {
    put(std::vector<std::int64_t>(axes.begin(), axes.end()));
}

void PlanWriter::put(const std::vector<bool>& flags) {
    put(std::vector<std::int64_t>(flags.begin(), flags.end()));
}

void PlanWriter::put(const Point& point) {
    put(point.to_vector());
}

void PlanWriter::put(const Region& region) {
    put(region.lo());
    put(region.hi());
}

void PlanWriter::put(const std::string& text) {
    put(static_cast<std::int64_t>(text.size()));
    for (std::size_t i = 0; i < text.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
        words_.push_back(word);
    }
}

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
    std::string text(static_cast<std::size_t>(get_count(1, 8)), ' ');
    for (std::size_t i = 0; i < text.size(); i += 8) {
        const std::int64_t word = get();
        std::memcpy(text.data() + i, &word, std::min<std::size_t>(8, text.size() - i));
    }
    // It may stand in the text of an error.
    if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; }))
        refuse("a text of other characters than ASCII's");
    return text;
}

void PlanReader::read(std::vector<int>& axes) {
    for (const std::int64_t axis : get_all()) {
        if (axis < 0 || axis >= max_dims)
            throw make_error(ErrorCode::invalid_argument, "axis ", axis);
        axes.push_back(static_cast<int>(axis));
    }
}

void PlanReader::read(std::vector<bool>& flags) {
    for (const std::int64_t flag : get_all()) flags.push_back(flag != 0);
}

}  // namespace datamover::plan

namespace datamover {
namespace {

using plan::PlanReader;
using plan::PlanWriter;

/// The number of a kind of layout, which comes before it.
enum class LayoutKind : std::int64_t { block_cyclic, floor_plan, index_list, flat_cyclic };

void put_kind(LayoutKind kind, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(kind));
}

void write(const BlockCyclic& layout, PlanWriter& out) {
    put_kind(LayoutKind::block_cyclic, out);
    out.put_each(layout.shape(), layout.distribution(), layout.nprocs(), layout.grid(),
                 layout.first_process(), layout.column_major_grid(), layout.ranks(),
                 layout.replicas());
}

void write(const FloorPlan& layout, PlanWriter& out) {
    put_kind(LayoutKind::floor_plan, out);
    out.put_each(std::int64_t{layout.dims()}, layout.nprocs(), layout.lower_corners(),
                 layout.upper_corners(), layout.owners());
}

void write(const IndexList& layout, PlanWriter& out) {
    if (!layout.knows_all() && layout.nprocs() > 1)
        throw Error(
            ErrorCode::unsupported,
            "index lists of which every process knows only its own cannot be saved; make the "
            "plan again from the lists, or save one whose IndexList was made of all lists");
    put_kind(LayoutKind::index_list, out);
    out.put_each(layout.shape(), layout.nprocs());
    for (std::int64_t rank = 0; rank < layout.nprocs(); ++rank) out.put(layout.indices_of(rank));
}

void write(const FlatCyclic& layout, PlanWriter& out) {
    put_kind(LayoutKind::flat_cyclic, out);
    out.put_each(layout.shape(), layout.block_elems(), layout.nprocs(), layout.owners());
}

void write(const Layout& layout, PlanWriter& out) {
    if (layout.block_cyclic())
        write(*layout.block_cyclic(), out);
    else if (layout.floor_plan())
        write(*layout.floor_plan(), out);
    else if (layout.flat_cyclic())
        write(*layout.flat_cyclic(), out);
    else
        write(*layout.index_list(), out);
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

BlockCyclic read_block_cyclic(PlanReader& in) {
    const Point shape = in.get_point();
    const std::string distribution = in.get_text();
    const std::int64_t nprocs = in.get();
    BlockCyclicOptions options;
    options.grid = in.get_all();
    options.first_process = in.get_all();
    options.column_major_grid = in.get_flag();
    options.ranks = in.get_all();
    options.replicas = in.get();
    return {shape, distribution, nprocs, options};
}

FloorPlan read_floor_plan(PlanReader& in) {
    const auto dims = static_cast<int>(in.get(1, max_dims, "a number of dimensions"));
    const std::int64_t nprocs = in.get();
    const auto lower = in.get_all(), upper = in.get_all(), owners = in.get_all();
    return {dims, lower, upper, owners, nprocs};
}

IndexList read_index_list(PlanReader& in) {
    const Point shape = in.get_point();
    std::vector<std::int64_t> offsets{0}, indices;
    for (std::int64_t left = in.get(); left > 0; --left) {
        const auto list = in.get_all();
        indices.insert(indices.end(), list.begin(), list.end());
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    return {shape, offsets, indices};
}

FlatCyclic read_flat_cyclic(PlanReader& in) {
    const Point shape = in.get_point();
    const std::int64_t block_elems = in.get(), nprocs = in.get();
    return {shape, block_elems, nprocs, in.get_all()};
}

Layout read_layout(PlanReader& in) {
    const std::int64_t last = static_cast<std::int64_t>(LayoutKind::flat_cyclic);
    switch (static_cast<LayoutKind>(in.get(0, last, "a kind of layout"))) {
        case LayoutKind::block_cyclic:
            return read_block_cyclic(in);
        case LayoutKind::floor_plan:
            return read_floor_plan(in);
        case LayoutKind::flat_cyclic:
            return read_flat_cyclic(in);
        default:
            return read_index_list(in);
    }
}

PlanTerm read_term(PlanReader& in) {
    PlanTerm term;
    switch (in.get(0, std::variant_size_v<PlanTerm> - 1, "a kind of term")) {
        case 0:
            break;
        case 1:
            term = Redistribution{};
            break;
        default:
            term = HaloExchange{};
    }
    std::visit(
        [&](auto& of_kind) {
            std::apply([&](auto&... members) { (in.read(members), ...); }, members_of(of_kind));
        },
        term);
    return term;
}

}  // namespace

namespace plan {

const std::vector<std::int64_t>& plan_digests(const MotionPlan& plan) {
    return PlanDigests::of(plan).parts;
}

std::int64_t plan_digest(const MotionPlan& plan) {
    return PlanDigests::of(plan).all;
}

const PlanDigests::Digests& PlanDigests::of(const MotionPlan& plan) {
    if (!plan.source_.valid())
        throw Error(ErrorCode::invalid_argument, "a plan without layouts has no digest");
    return plan.worked_out_->digests.digests_.get([&] { return digests_of(plan); });
}

PlanDigests::Digests PlanDigests::digests_of(const MotionPlan& plan) {
    Digests digests;
    digests.parts = {plan.source_.digest(), plan.destination_.digest()};
    for (const PlanTerm& term : plan.terms_) {
        PlanWriter out;
        write(term, out);
        digests.parts.push_back(out.digest());
    }
    geometry::WordDigest all;
    all.put_all(digests.parts);
    digests.all = all.value();
    return digests;
}

}  // namespace plan

std::vector<std::uint8_t> MotionPlan::to_bytes() const {
    if (!source_.valid())
        throw Error(ErrorCode::invalid_argument, "a plan without layouts cannot be saved");
    PlanWriter out;
    write(source_, out);
    write(destination_, out);
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
