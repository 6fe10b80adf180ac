// SPDX-License-Identifier: BSD-3-Clause
// Agreement of all processes on a call of a migration, with its error if one cannot make it.
#include "agreement.hpp"

#include "geometry/make_error.hpp"
#include "geometry/text_digest.hpp"
#include "geometry/word_digest.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/collectives.hpp"

namespace datamover::distribute {
namespace {

/// Two bits of a notice's number are taken otherwise.
constexpr std::int64_t signature_limit = std::int64_t{1} << 60;

/// Throws on all processes that one of them makes another call than process 0. Collective.
[[noreturn]] void refuse_different(const mpi::ProcessGroup& group, const Call& call) {
    mpi::require_same(group, {{"calls of a migration", call.describe()}}, "made");
    throw Error(ErrorCode::mismatch, "processes made different calls of a migration");
}

}  // namespace

std::int64_t Call::signature() const {
    geometry::WordDigest words;
    words.put_all(std::array{geometry::text_digest(what_), geometry::text_digest(how_.method),
                             std::int64_t{how_.stable}, static_cast<std::int64_t>(op_),
                             static_cast<std::int64_t>(by_), migration_});
    for (const ElementColumn& c : columns_)
        words.put_all(std::array{c.elem_bytes, static_cast<std::int64_t>(c.type),
                                 geometry::text_digest(c.type_name)});
    return words.value() % signature_limit;
}

std::string Call::describe() const {
    std::string text = std::string(what_);
    if (!columns_.empty()) {
        text += columns_.size() == 1 ? " of a column" : concat(" of ", columns_.size(), " columns");
        std::string separator = " of elements of ";
        for (const ElementColumn& c : columns_) {
            text += concat(separator, c.elem_bytes, " bytes");
            const std::string type = c.type_name.empty() && c.type != ScalarType::opaque
                                         ? scalar_name(c.type)
                                         : c.type_name;
            if (!type.empty()) text += " (" + type + ")";
            separator = " and ";
        }
    }
    text += " by " + how_.method + (how_.stable ? " in stable order" : " in any order");
    if (op_ != Op::replace) text += concat(" with op=\"", op_name(op_), '"');
    if (by_ == ArrivedBy::move) text += " after a move";
    if (by_ == ArrivedBy::move_in_place) text += " after a move in place";
    if (migration_ > 0) text += concat(" with migration ", migration_, " of the communicator");
    return text;
}

void raise_if_needed(const mpi::ProcessGroup& group, const Notices& all, const LocalError& mine,
                     const Call& call) {
    if (!all.failed && !all.differ) return;
    try {
        if (all.failed) group.agree(mine.told);
        refuse_different(group, call);
    } catch (const Error&) {
        mine.raise_own();
        throw;
    }
}

bool agree(State& s, NodeSlot& slot, const LocalError& mine, const Call& call, bool limited) {
    const auto all = exchange_notices(s, slot, {mine.told.has_value(), limited, call.signature()});
    raise_if_needed(*s.group, all, mine, call);
    return all.limited;
}

namespace {

void merge(Notices& all, const Notice& mine, std::int64_t theirs) {
    all.failed = all.failed || theirs % 2 != 0;
    all.limited = all.limited || theirs / 2 % 2 != 0;
    all.differ = all.differ || theirs / 4 != mine.signature;
}

}  // namespace

/// Two bits, and the signature above them.
std::int64_t packed(const Notice& mine) {
    return mine.signature * 4 + (mine.limited ? 2 : 0) + (mine.failed ? 1 : 0);
}

Notices collected_notices(const State& s, const NodeSlot& slot, const Notice& mine) {
    Notices all{mine.failed, mine.limited, false};
    for (int p = 0; p < s.channel->size(); ++p)
        if (p != s.channel->me())
            merge(all, mine, slot.collected()[static_cast<std::size_t>(p)].status);
    return all;
}

NoticeReduction::NoticeReduction(const mpi::ProcessGroup& group, const Notice& mine)
    : group_(group) {
    buffers_->mine = {mine.failed ? 1 : 0, mine.limited ? 1 : 0, mine.signature, -mine.signature};
}

NoticeReduction::~NoticeReduction() {
    if (request_ != MPI_REQUEST_NULL) group_.abandon(buffers_);
}

void NoticeReduction::begin() {
    begun_ = true;
    mpi::check(MPI_Iallreduce(buffers_->mine.data(), buffers_->largest.data(),
                              static_cast<int>(buffers_->mine.size()), MPI_INT64_T, MPI_MAX,
                              group_.comm(), &request_),
               "MPI_Iallreduce");
}

bool NoticeReduction::is_complete() {
    int done = 0;
    mpi::check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
}

Notices NoticeReduction::result() const {
    const Numbers& largest = buffers_->largest;
    return {largest[0] != 0, largest[1] != 0, largest[2] != -largest[3]};
}

NoticeExchange::NoticeExchange(const State& state, NodeSlot& slot, const Notice& mine)
    : s_(state), slot_(slot), mine_(mine) {
    if (state.channel->messages_needed()) reduction_.emplace(*state.group, mine);
}

void NoticeExchange::begin() {
    slot_.post(std::vector<NodeSlot::Numbers>(static_cast<std::size_t>(s_.channel->size()),
                                              {0, packed(mine_)}));
    if (reduction_) reduction_->begin();
}

bool NoticeExchange::is_complete() {
    return reduction_ ? reduction_->is_complete() : slot_.collect();
}

Notices NoticeExchange::result() const {
    return reduction_ ? reduction_->result() : collected_notices(s_, slot_, mine_);
}

}  // namespace datamover::distribute
