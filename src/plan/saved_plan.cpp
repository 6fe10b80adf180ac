// SPDX-License-Identifier: BSD-3-Clause
// Saved plans: plans as words and bytes, and back with validated reading.
#include <algorithm>
#include <cstring>
#include <string>

#include "datamover/motion_plan.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "io/whole_file.hpp"
#include "serial.hpp"
#include "worked_out.hpp"

namespace datamover::plan {

void PlanWriter::put_all(std::span<const std::int64_t> words) {
    put(static_cast<std::int64_t>(words.size()));
    for (const std::int64_t word : words) put(word);
}

void PlanWriter::put(const Point& point) {
    put_all(point.to_vector());
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

}  // namespace datamover::plan

namespace datamover {
namespace {

using plan::PlanReader;
using plan::PlanWriter;

// What stands before a layout, and before a term.
enum class LayoutKind : std::int64_t { block_cyclic, floor_plan, index_list, flat_cyclic };
enum class TermKind : std::int64_t { section, redistribution, halo };

void put_axes(const std::vector<int>& axes, PlanWriter& out) {
    out.put_all(std::vector<std::int64_t>(axes.begin(), axes.end()));
}

void put_flags(const std::vector<bool>& flags, PlanWriter& out) {
    out.put_all(std::vector<std::int64_t>(flags.begin(), flags.end()));
}

void write(const BlockCyclic& layout, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(LayoutKind::block_cyclic));
    out.put(layout.shape());
    out.put(layout.distribution());
    out.put(layout.nprocs());
    out.put(layout.grid());
    out.put(layout.first_process());
    out.put(std::int64_t{layout.column_major_grid()});
    out.put_all(layout.ranks());
    out.put(layout.replicas());
}

void write(const FloorPlan& layout, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(LayoutKind::floor_plan));
    out.put(std::int64_t{layout.dims()});
    out.put(layout.nprocs());
    out.put_all(layout.lower_corners());
    out.put_all(layout.upper_corners());
    out.put_all(layout.owners());
}

void write(const IndexList& layout, PlanWriter& out) {
    if (!layout.knows_all() && layout.nprocs() > 1)
        throw Error(
            ErrorCode::unsupported,
            "index lists of which every process knows only its own cannot be saved; make the "
            "plan again from the lists, or save one whose IndexList was made of all lists");
    out.put(static_cast<std::int64_t>(LayoutKind::index_list));
    out.put(layout.shape());
    out.put(layout.nprocs());
    for (std::int64_t rank = 0; rank < layout.nprocs(); ++rank)
        out.put_all(layout.indices_of(rank));
}

void write(const FlatCyclic& layout, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(LayoutKind::flat_cyclic));
    out.put(layout.shape());
    out.put(layout.block_elems());
    out.put(layout.nprocs());
    out.put_all(layout.owners());
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

void write(const SectionCopy& term, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(TermKind::section));
    out.put(term.source_block);
    out.put(term.source_region);
    out.put(term.destination_block);
    out.put(term.destination_region);
    put_axes(term.axes, out);
    out.put(term.source_step);
    out.put(term.destination_step);
    put_flags(term.flip, out);
}

void write(const Redistribution& term, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(TermKind::redistribution));
    out.put(term.source_region);
    out.put(term.destination_region);
    put_axes(term.axes, out);
    out.put(std::int64_t{term.partial});
    out.put(std::int64_t{term.reversed});
    out.put(std::int64_t{term.adjoint});
    put_flags(term.flip, out);
}

void write(const HaloExchange& term, PlanWriter& out) {
    out.put(static_cast<std::int64_t>(TermKind::halo));
    out.put(term.lower);
    out.put(term.upper);
    out.put(term.domain);
    put_flags(term.periodic, out);
    out.put(std::int64_t{term.corners});
    out.put(std::int64_t{term.reversed});
    out.put(term.colors);
    out.put(term.color);
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

std::vector<int> read_axes(PlanReader& in) {
    std::vector<int> axes;
    for (const std::int64_t axis : in.get_all()) {
        if (axis < 0 || axis >= max_dims)
            throw make_error(ErrorCode::invalid_argument, "axis ", axis);
        axes.push_back(static_cast<int>(axis));
    }
    return axes;
}

std::vector<bool> read_flags(PlanReader& in) {
    std::vector<bool> flags;
    for (const std::int64_t flag : in.get_all()) flags.push_back(flag != 0);
    return flags;
}

SectionCopy read_section(PlanReader& in) {
    SectionCopy term;
    term.source_block = in.get();
    term.source_region = in.get_region();
    term.destination_block = in.get();
    term.destination_region = in.get_region();
    term.axes = read_axes(in);
    term.source_step = in.get_point();
    term.destination_step = in.get_point();
    term.flip = read_flags(in);
    return term;
}

Redistribution read_redistribution(PlanReader& in) {
    Redistribution term;
    term.source_region = in.get_region();
    term.destination_region = in.get_region();
    term.axes = read_axes(in);
    term.partial = in.get_flag();
    term.reversed = in.get_flag();
    term.adjoint = in.get_flag();
    term.flip = read_flags(in);
    return term;
}

HaloExchange read_halo(PlanReader& in) {
    HaloExchange term;
    term.lower = in.get_point();
    term.upper = in.get_point();
    term.domain = in.get_region();
    term.periodic = read_flags(in);
    term.corners = in.get_flag();
    term.reversed = in.get_flag();
    term.colors = in.get();
    term.color = in.get();
    return term;
}

PlanTerm read_term(PlanReader& in) {
    const std::int64_t last = static_cast<std::int64_t>(TermKind::halo);
    switch (static_cast<TermKind>(in.get(0, last, "a kind of term"))) {
        case TermKind::section:
            return read_section(in);
        case TermKind::redistribution:
            return read_redistribution(in);
        default:
            return read_halo(in);
    }
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
        std::visit([&](const auto& of_kind) { write(of_kind, out); }, term);
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
    for (const PlanTerm& term : terms_)
        std::visit([&](const auto& of_kind) { write(of_kind, out); }, term);
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
