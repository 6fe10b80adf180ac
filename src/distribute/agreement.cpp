// SPDX-License-Identifier: BSD-3-Clause
// Agreement of all processes on a call of a migration, and moves between start and wait.
#include "agreement.hpp"

#include <algorithm>
#include <utility>

#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "migration_state.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/collectives.hpp"

namespace datamover::distribute {
namespace {

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
    return words.value();
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

NoticeExchange::NoticeExchange(const State& state, NodeSlot& slot, const Notice& mine)
    : s_(state),
      slot_(slot),
      numbers_(std::make_shared<NoticeNumbers>(
          NoticeNumbers{mine.failed, mine.limited, mine.signature, -mine.signature})) {}

NoticeExchange::~NoticeExchange() {
    if (request_ != MPI_REQUEST_NULL) s_.group->abandon(numbers_);
}

void NoticeExchange::post(const std::vector<std::int64_t>& counts) {
    std::vector<NodeSlot::Numbers> to_each(static_cast<std::size_t>(s_.channel->size()),
                                           {0, *numbers_});
    for (std::size_t p = 0; p < to_each.size() && !counts.empty(); ++p)
        to_each[p].count =
            counts[static_cast<std::size_t>(s_.channel->rank_of(static_cast<int>(p)))];
    slot_.post(to_each);
}

void NoticeExchange::begin() {
    if (!s_.channel->messages_needed()) return;
    mpi::check(MPI_Iallreduce(MPI_IN_PLACE, numbers_->data(), static_cast<int>(numbers_->size()),
                              MPI_INT64_T, MPI_MAX, s_.group->comm(), &request_),
               "MPI_Iallreduce");
}

bool NoticeExchange::is_complete() {
    int done = 1;
    if (request_ != MPI_REQUEST_NULL)
        mpi::check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0 && slot_.collect();
}

Notices NoticeExchange::result() const {
    NoticeNumbers largest = *numbers_;
    for (const NodeSlot::Numbers& theirs : slot_.collected())
        std::ranges::transform(largest, theirs.notice, largest.begin(), std::ranges::max);
    return {largest[0] != 0, largest[1] != 0, largest[2] != -largest[3]};
}

// Moves of elements between start and wait.

namespace {

/// Only start, which is no call of all processes, is refused where too many are in flight here.
std::shared_ptr<NodeChannel> with_room(std::shared_ptr<NodeChannel> channel) {
    channel->check_room();
    return channel;
}

}  // namespace

class StartedMove::Steps final : public SlotOperation {
public:
    Steps(State& state, NodeSlot& slot, StartArguments arguments)
        : SlotOperation(state, slot),
          brought_(std::move(arguments)),
          call_(Call("start of a move", {"partition", true}, state.number).with(brought_.columns)),
          notices_(state, slot, {brought_.local_error.told.has_value(), false, call_.signature()}) {
    }

    void announce() override {
        notices_.post();
        notices_.begin();
    }
    void begin() override {}

    /// Hears whether all take part, then pushes the carrier of some columns on, and begins the next
    /// after it.
    bool advance() override {
        if (!heard_) {
            if (!notices_.is_complete()) return false;
            heard_ = notices_.result();
            note_progress();
        }
        if (heard_->failed || heard_->differ) return true;
        while (now_ || next_ < brought_.columns.size()) {
            if (!now_) {
                const ColumnTransfer all{brought_.columns, brought_.results};
                now_ = make_transfer(s_, slot_, all.next(next_, offered_columns));
                now_->begin();
                note_progress();
            }
            const Progress made = now_->progress();
            if (made != Progress::none) note_progress();
            if (made != Progress::complete) return false;
            now_.reset();
        }
        return true;
    }

    /// Once complete: throws what kept any process from taking part. Collective where it throws.
    void raise_refusals() const {
        if (heard_) raise_if_needed(*s_.group, *heard_, brought_.local_error, call_);
    }

    std::vector<std::int64_t> waiting_for() const override {
        if (now_) return now_->waiting_for();
        std::vector<std::int64_t> others;
        for (int r = 0; r < s_.nprocs(); ++r)
            if (r != s_.rank()) others.push_back(r);
        return others;
    }
    void keep_memory() noexcept override {
        if (now_) now_->keep_memory();
    }

private:
    StartArguments brought_;
    Call call_;
    NoticeExchange notices_;
    std::optional<Notices> heard_;
    std::size_t next_ = 0;  ///< column that no carrier has taken yet
    OperationPtr now_;
};

StartedMove::StartedMove(State& state, StartArguments arguments)
    : claim_(with_room(state.channel)),
      steps_(std::make_unique<Steps>(state, claim_.slot(), std::move(arguments))),
      round_(state.group, *steps_, "migration") {
    round_.start();
    claim_.give_up_after([this] { return round_.test(); });
}

/// Another thread that wants the slot may push the move on until the claim has ended.
StartedMove::~StartedMove() {
    round_.give_up();
    claim_.release();
}

bool StartedMove::in_flight() const {
    return !is_told_ && !round_.has_failed();
}

bool StartedMove::test() {
    if (!round_.test()) return false;
    is_told_ = true;
    steps_->raise_refusals();
    return true;
}

void StartedMove::wait(std::optional<double> timeout_seconds) {
    round_.wait(timeout_seconds);
    is_told_ = true;
    steps_->raise_refusals();
}

void SlotOperation::keep_memory() noexcept {
    for (memory::AllocationPtr& memory : used_) s_.group->keep(std::move(memory));
}

std::optional<memory::SharedPlace> SlotOperation::share(const std::byte* data, std::int64_t bytes) {
    memory::AllocationPtr memory = s_.group->pool().find(data, data + bytes);
    const auto place = memory::place_of(memory.get(), data);
    if (place) use(std::move(memory));
    return place;
}

void run(State& state, Operation& operation) {
    Round round(state.group, operation, "migration", AfterTimeout::given_up);
    round.start();
    round.wait({});
}

void propagating_errors(const State& state, const std::function<void()>& work) {
    mpi::check_still_running();
    state.group->check_alive();
    try {
        work();
    } catch (...) {
        state.group->fail(mpi::current_error(*state.group));
        throw;
    }
}

}  // namespace datamover::distribute
