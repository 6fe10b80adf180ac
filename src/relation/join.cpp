// SPDX-License-Identifier: BSD-3-Clause
// Joining a source and a destination half, or several relations, to one.
#include <algorithm>

#include "datamover/advanced/axis_table.hpp"
#include "encodings.hpp"
#include "geometry/make_error.hpp"
#include "product_builder.hpp"

namespace datamover {

/// The k-th source of `a` meets the k-th destination of `b`; a null pointer stands for 0, 1, 2, …
/// up to `size`.
AxisTable join_tables(const AxisTable* a, const AxisTable* b, std::int64_t size);

namespace {

/// Walks the blocks of a list of runs; a block may be consumed in pieces.
class RunCursor {
public:
    RunCursor(const std::vector<AxisRun>& runs, Side side) : runs_(runs), side_(side) {}

    bool done() const { return run_ == runs_.size(); }
    bool at_block_start() const { return within_ == 0; }
    std::int64_t length() const { return runs_[run_].length; }
    std::int64_t left_in_block() const { return length() - within_; }
    std::int64_t blocks_left() const { return runs_[run_].count - block_; }
    std::int64_t step() const { return runs_[run_].step(side_); }
    std::int64_t position() const { return runs_[run_].start(side_) + block_ * step() + within_; }
    void take_blocks(std::int64_t n) {
        block_ += n;
        close_run();
    }
    void take_positions(std::int64_t n) {
        within_ += n;
        if (within_ < length()) return;
        within_ = 0;
        take_blocks(1);
    }

private:
    void close_run() {
        if (block_ < runs_[run_].count) return;
        block_ = 0;
        ++run_;
    }

    const std::vector<AxisRun>& runs_;
    Side side_;
    std::size_t run_ = 0;
    std::int64_t block_ = 0;
    std::int64_t within_ = 0;
};

/// The next joint run, as many blocks at once as both sides allow.
AxisRun next_run(RunCursor& a, RunCursor& b) {
    AxisRun run{a.position(), b.position(), 1, 1, 0, 0};
    if (a.at_block_start() && b.at_block_start() && a.length() == b.length()) {
        run.length = a.length();
        run.count = std::min(a.blocks_left(), b.blocks_left());
        run.source_step = a.step();
        run.destination_step = b.step();
        a.take_blocks(run.count);
        b.take_blocks(run.count);
    } else if (b.at_block_start() && b.length() < a.left_in_block()) {
        run.length = b.length();
        run.count = std::min(b.blocks_left(), a.left_in_block() / b.length());
        run.source_step = run.length;
        run.destination_step = b.step();
        a.take_positions(run.count * run.length);
        b.take_blocks(run.count);
    } else if (a.at_block_start() && a.length() < b.left_in_block()) {
        run.length = a.length();
        run.count = std::min(a.blocks_left(), b.left_in_block() / a.length());
        run.source_step = a.step();
        run.destination_step = run.length;
        a.take_blocks(run.count);
        b.take_positions(run.count * run.length);
    } else {
        run.length = std::min(a.left_in_block(), b.left_in_block());
        a.take_positions(run.length);
        b.take_positions(run.length);
    }
    if (run.count == 1) run.source_step = run.destination_step = 0;
    return run;
}

std::vector<AxisRun> join_runs(const std::vector<AxisRun>& a, const std::vector<AxisRun>& b) {
    RunCursor left(a, Side::source);
    RunCursor right(b, Side::destination);
    std::vector<AxisRun> joined;
    while (!left.done() && !right.done()) joined.push_back(next_run(left, right));
    return fold_runs(std::move(joined));
}

/// All runs of a table with its periods written out.
std::vector<AxisRun> all_runs(const AxisTable& t) {
    std::vector<AxisRun> runs;
    for (std::int64_t p = 0; p < t.periods(); ++p)
        for (AxisRun r : t.runs()) {
            r.source += p * t.source_period();
            r.destination += p * t.destination_period();
            runs.push_back(r);
        }
    runs.insert(runs.end(), t.tail().begin(), t.tail().end());
    return runs;
}

/// The positions 0, 1, 2, … with the periods of another table.
AxisTable counting_like(const AxisTable& t) {
    const std::int64_t period = t.period_size();
    const std::int64_t rest = t.size() - period * t.periods();
    std::vector<AxisRun> tail;
    if (rest > 0) tail.push_back({period * t.periods(), period * t.periods(), rest, 1, 0, 0});
    std::vector<AxisRun> runs;
    if (period > 0) runs.push_back({0, 0, period, 1, 0, 0});
    return AxisTable(runs, t.periods(), period, period, tail);
}

}  // namespace

AxisTable join_tables(const AxisTable* a, const AxisTable* b, std::int64_t size) {
    if (a == nullptr && b == nullptr) return AxisTable::interval(0, 0, size);
    const AxisTable left = a != nullptr ? *a : counting_like(*b);
    const AxisTable right = b != nullptr ? *b : counting_like(*a);
    if (left.periods() == right.periods() && left.period_size() == right.period_size())
        return AxisTable(join_runs(left.runs(), right.runs()), left.periods(), left.source_period(),
                         right.destination_period(), join_runs(left.tail(), right.tail()));
    return AxisTable(join_runs(all_runs(left), all_runs(right)));
}

namespace {

using Owners = ProductBuilder::Owners;

/// What is left to be matched of a nest's innermost axis, in counting order of the message.
class AxisCursor {
public:
    explicit AxisCursor(const Nest& nest) : nest_(nest), left_(nest.axes) {}
    bool done() const { return left_.empty(); }
    NestAxis& inner() { return left_.back(); }
    /// Marks the innermost `count` positions of a plain axis as matched.
    void consume(std::int64_t count) {
        NestAxis& axis = left_.back();
        if (axis.count == count) {
            left_.pop_back();
            return;
        }
        axis.count /= count;
        axis.source_stride *= count;
        axis.destination_stride *= count;
    }

private:
    const Nest& nest_;
    std::vector<NestAxis> left_;
};

/// Joins nests whose axes have a common refinement; false when they have none.
bool join_nests(const Nest& a, const Nest& b, ProductBuilder& result) {
    Nest joined{a.source, b.destination, {}};
    Owners owners;
    AxisCursor left(a);
    AxisCursor right(b);
    while (!left.done() && !right.done()) {
        const NestAxis la = left.inner();
        const NestAxis rb = right.inner();
        if (la.table != nullptr || rb.table != nullptr) {
            if (la.count != rb.count) return false;
            owners.push_back(
                std::make_shared<AxisTable>(join_tables(la.table, rb.table, la.count)));
            joined.axes.push_back(
                {la.count, la.source_stride, rb.destination_stride, owners.back().get()});
            left.consume(la.count);
            right.consume(rb.count);
            continue;
        }
        const std::int64_t n = std::min(la.count, rb.count);
        if (la.count % n != 0 || rb.count % n != 0) return false;
        joined.axes.push_back({n, la.source_stride, rb.destination_stride, nullptr});
        left.consume(n);
        right.consume(n);
    }
    if (!left.done() || !right.done()) return false;
    joined.axes = {joined.axes.rbegin(), joined.axes.rend()};
    fold_axes(joined.axes);
    result.append(joined, owners);
    return true;
}

/// Joins two lists of products nest by nest; nullptr when their nests do not meet.
StoragePtr join_products(const ProductStorage& a, const ProductStorage& b) {
    if (a.nests.size() != b.nests.size()) return nullptr;
    ProductBuilder result(a.source_elem_bytes, b.destination_elem_bytes);
    for (std::size_t i = 0; i < a.nests.size(); ++i) {
        const Nest left = a.nest(i), right = b.nest(i);
        if (left.size() != right.size() || !join_nests(left, right, result)) return nullptr;
    }
    return result.finish();
}

StoragePtr join_pairs(const AddressRelation& a, const AddressRelation& b) {
    auto result = std::make_shared<PairsStorage>(a.source_elem_bytes(), b.destination_elem_bytes());
    std::vector<std::int64_t> message;
    a.to_pairs(result->source, message);
    b.to_pairs(message, result->destination);
    return encode_best(result);
}

bool all_products(std::span<const AddressRelation> parts) {
    for (const AddressRelation& part : parts)
        if (part.encoding() != Encoding::product) return false;
    return true;
}

StoragePtr concatenate_products(std::span<const AddressRelation> parts, std::int64_t source_elem,
                                std::int64_t destination_elem) {
    ProductBuilder result(source_elem, destination_elem);
    for (const AddressRelation& part : parts) {
        const auto& product = static_cast<const ProductStorage&>(*RelationAccess::storage(part));
        product.for_each_nest([&](const Nest& nest) { result.append(nest, product.tables); });
    }
    return result.finish();
}

}  // namespace

AddressRelation AddressRelation::join(const AddressRelation& source_half,
                                      const AddressRelation& destination_half) {
    if (source_half.size() != destination_half.size())
        throw make_error(ErrorCode::mismatch, "the source half holds ", source_half.size(),
                         " elements, the destination half ", destination_half.size());
    const auto* a = dynamic_cast<const ProductStorage*>(source_half.storage_.get());
    const auto* b = dynamic_cast<const ProductStorage*>(destination_half.storage_.get());
    StoragePtr joined = a != nullptr && b != nullptr ? join_products(*a, *b) : nullptr;
    if (joined == nullptr) joined = join_pairs(source_half, destination_half);
    return AddressRelation(std::move(joined));
}

AddressRelation AddressRelation::concatenate(std::span<const AddressRelation> parts) {
    std::vector<AddressRelation> filled;
    for (const AddressRelation& part : parts)
        if (!part.empty()) filled.push_back(part);
    if (filled.empty()) return parts.empty() ? AddressRelation() : parts.front();
    std::int64_t size = 0;
    const std::int64_t source_elem = filled.front().source_elem_bytes();
    const std::int64_t destination_elem = filled.front().destination_elem_bytes();
    for (const AddressRelation& part : filled) {
        size += part.size();
        if (part.source_elem_bytes() == source_elem &&
            part.destination_elem_bytes() == destination_elem)
            continue;
        throw Error(ErrorCode::mismatch,
                    "relations to be concatenated must have the same element sizes");
    }
    if (filled.size() == 1) return filled.front();
    if (all_products(filled))
        return AddressRelation(concatenate_products(filled, source_elem, destination_elem));
    const RelationView view(Encoding::pairs, size, source_elem, destination_elem,
                            [&](const RunVisitor& visit) {
                                for (const AddressRelation& part : filled)
                                    part.storage_->visit(visit);
                            });
    return AddressRelation(encode_best(encode_pairs(view)));
}

}  // namespace datamover
