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

// Moves of elements between start and wait.

namespace {

/// Only start, which is no call of all processes, is refused where too many are in flight here.
std::shared_ptr<NodeChannel> with_room(std::shared_ptr<NodeChannel> channel) {
    channel->check_room();
    return channel;
}

}  // namespace

class StartedMove::Steps final : public Operation {
public:
    Steps(State& state, NodeSlot& slot, StartArguments arguments)
        : s_(state),
          slot_(slot),
          brought_(std::move(arguments)),
          call_(Call("start of a move", {"partition", true}, state.number).with(brought_.columns)),
          notices_(state, slot, {brought_.local_error.told.has_value(), false, call_.signature()}) {
    }

    void announce() override { notices_.begin(); }
    void begin() override {}

    Progress progress() override {
        Progress made = Progress::none;
        if (!heard_) {
            if (!notices_.is_complete()) return made;
            heard_ = notices_.result();
            made = Progress::some;
        }
        if (refused()) return Progress::complete;
        while (carry_on(made)) {
        }
        return now_ ? made : Progress::complete;
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
    bool sends_messages() const override { return s_.nprocs() > 1; }
    bool needs_polls() const override { return s_.channel->messages_needed(); }
    void keep_memory() noexcept override {
        if (now_) now_->keep_memory();
    }

private:
    bool refused() const { return heard_->failed || heard_->differ; }

    /// Pushes the carrier of some columns on, and begins the next after it; true while there is one
    /// that may go on now.
    bool carry_on(Progress& made) {
        if (!now_) {
            if (next_ == brought_.columns.size()) return false;
            begin_next();
            made = Progress::some;
        }
        const Progress now = now_->progress();
        if (now != Progress::complete) {
            if (now == Progress::some) made = now;
            return false;
        }
        now_.reset();
        made = Progress::some;
        return true;
    }

    void begin_next() {
        const std::size_t n = std::min(offered_columns, brought_.columns.size() - next_);
        const ColumnTransfer some{std::span(brought_.columns).subspan(next_, n),
                                  std::span(brought_.results).subspan(next_, n)};
        next_ += n;
        now_ = make_transfer(s_, slot_, some);
        now_->begin();
    }

    State& s_;
    NodeSlot& slot_;
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
