// SPDX-License-Identifier: BSD-3-Clause
// Agreements of all processes on calls of migrations: with counts of elements, or while a move
// runs.
#include "agreement.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "migration_state.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/collectives.hpp"
#include "mpi/part_messages.hpp"

namespace datamover::distribute {
std::int64_t Call::signature() const {
    geometry::WordDigest words;
    words.put_all(std::array{geometry::text_digest(what), geometry::text_digest(how.method),
                             std::int64_t{how.stable}, static_cast<std::int64_t>(op),
                             static_cast<std::int64_t>(by), migration});
    for (const ElementColumn& c : columns)
        words.put_all(std::array{c.elem_bytes, static_cast<std::int64_t>(c.type),
                                 geometry::text_digest(c.type_name)});
    return words.value();
}

std::string Call::describe() const {
    std::string text = std::string(what);
    if (!columns.empty()) {
        text += columns.size() == 1 ? " of a column" : concat(" of ", columns.size(), " columns");
        std::string separator = " of elements of ";
        for (const ElementColumn& c : columns) {
            text += concat(separator, c.elem_bytes, " bytes");
            const std::string type = c.type_name.empty() && c.type != ScalarType::opaque
                                         ? scalar_name(c.type)
                                         : c.type_name;
            if (!type.empty()) text += " (" + type + ")";
            separator = " and ";
        }
    }
    text += " by " + how.method + (how.stable ? " in stable order" : " in any order");
    if (op != Op::replace) text += concat(" with op=\"", op_name(op), '"');
    if (by == ArrivedBy::move) text += " after a move";
    if (by == ArrivedBy::move_in_place) text += " after a move in place";
    if (migration > 0) text += concat(" with migration ", migration, " of the communicator");
    return text;
}

Agreement::Agreement(State& state, NodeSlot& slot, LocalError mine, Call call, bool limited)
    : s_(state), slot_(slot), mine_(std::move(mine)), call_(std::move(call)) {
    const std::int64_t signature = call_.signature();
    numbers_ = std::make_shared<NoticeNumbers>(
        NoticeNumbers{mine_.told.has_value(), limited, signature, -signature});
}

Agreement::~Agreement() {
    if (request_ != MPI_REQUEST_NULL) s_.group->abandon(numbers_);
}

void Agreement::post(const std::vector<std::int64_t>& counts) {
    std::vector<NodeSlot::Numbers> to_each(static_cast<std::size_t>(s_.channel->size()),
                                           {0, *numbers_});
    for (std::size_t p = 0; p < to_each.size() && !counts.empty(); ++p)
        to_each[p].count =
            counts[static_cast<std::size_t>(s_.channel->rank_of(static_cast<int>(p)))];
    slot_.post(to_each);
}

void Agreement::begin() {
    if (!s_.channel->messages_needed()) return;
    mpi::check(MPI_Iallreduce(MPI_IN_PLACE, numbers_->data(), static_cast<int>(numbers_->size()),
                              MPI_INT64_T, MPI_MAX, s_.group->comm(), &request_),
               "MPI_Iallreduce");
}

bool Agreement::is_complete() {
    int done = 1;
    if (request_ != MPI_REQUEST_NULL)
        mpi::check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0 || !slot_.collect()) return false;
    all_ = *numbers_;
    for (const NodeSlot::Numbers& theirs : slot_.collected())
        std::ranges::transform(all_, theirs.notice, all_.begin(), std::ranges::max);
    return true;
}

void Agreement::raise_refusal() const {
    if (!is_refused()) return;
    try {
        if (failed()) s_.group->agree(mine_.told);
        mpi::require_same(*s_.group, {{"calls of a migration", call_.describe()}}, "made");
        throw Error(ErrorCode::mismatch, "processes made different calls of a migration");
    } catch (const Error&) {
        mine_.raise_own();
        throw;
    }
}

bool Agreement::reach() {
    propagating_errors(s_, [&] {
        post();
        begin();
        mpi::wait_until(*s_.group, [&] { return is_complete(); });
    });
    raise_refusal();
    return is_limited();
}

// Counts of the elements that go from each process to each other one.
//
// On a node counts go through shared memory. Beyond it only pairs with elements exchange a message;
// that no more are coming is found out by a reduction that starts when all own messages have been
// received (T. Hoefler, C. Siebert, A. Lumsdaine, Scalable Communication Protocols for Dynamic
// Sparse Data Exchange, PPoPP 2010, the NBX algorithm).

bool Agreement::reach_with_counts() {
    propagating_errors(s_, [&] {
        s_.recv_counts.assign(static_cast<std::size_t>(s_.nprocs()), 0);
        if (mine_.told) s_.send_counts = s_.recv_counts;
        post(s_.send_counts);
        if (s_.channel->messages_needed())
            count_beyond_node();
        else
            mpi::wait_until(*s_.group, [&] { return is_complete(); });
        for (int p = 0; p < s_.channel->size(); ++p)
            s_.recv_counts[static_cast<std::size_t>(s_.channel->rank_of(p))] =
                slot_.collected()[static_cast<std::size_t>(p)].count;
    });
    raise_refusal();
    return is_limited();
}

/// Counts to and from other nodes; completes the agreement, which was posted.
void Agreement::count_beyond_node() {
    const int tag = slot_.count_tag();
    const auto counts = std::make_shared<std::vector<std::int64_t>>(s_.send_counts);
    mpi::Messages sends(*s_.group, tag);
    for (int r = 0; r < s_.nprocs(); ++r) {
        std::int64_t& count = (*counts)[static_cast<std::size_t>(r)];
        if (count == 0 || s_.channel->position(r) >= 0) continue;
        sends.send_synchronously({reinterpret_cast<std::byte*>(&count), sizeof count}, r, counts);
    }
    const auto arriving = std::make_shared<std::vector<std::int64_t>>(s_.send_counts.size(), 0);
    mpi::Messages receives(*s_.group, tag);
    bool all_sent = false;
    mpi::wait_until(*s_.group, [&] {
        int arrived = 0;
        MPI_Status status;
        mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, tag, s_.group->comm(), &arrived, &status),
                   "MPI_Iprobe");
        if (arrived) {
            std::int64_t& count = (*arriving)[static_cast<std::size_t>(status.MPI_SOURCE)];
            receives.receive({reinterpret_cast<std::byte*>(&count), sizeof count},
                             status.MPI_SOURCE, arriving);
            receives.wait();
        }
        if (all_sent) return is_complete();
        all_sent = sends.all_complete();
        if (all_sent) begin();
        return false;
    });
    s_.recv_counts = *arriving;
}

// Moves of elements between start and wait.

StartedMove::StartedMove(State& state, SlotClaim claim, StartArguments arguments)
    : SlotOperation(state, claim.slot()),
      claim_(std::move(claim)),
      brought_(std::move(arguments)),
      agreement_(state, slot_, brought_.local_error,
                 {"start of a move", {"partition", true}, state.number, brought_.columns}),
      round_(state.group, *this, "migration") {
    round_.start();
    claim_.give_up_after([this] { return round_.test(); });
}

/// Another thread that wants the slot may push the move on until the claim has ended.
StartedMove::~StartedMove() {
    round_.give_up();
    claim_.release();
}

void StartedMove::announce() {
    agreement_.post();
    agreement_.begin();
}

/// Hears whether all take part, then pushes the carrier of some columns on, and begins the next
/// after it.
bool StartedMove::advance() {
    if (!agreed_) {
        if (!agreement_.is_complete()) return false;
        agreed_ = true;
        note_progress();
    }
    if (agreement_.is_refused()) return true;
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

std::vector<std::int64_t> StartedMove::waiting_for() const {
    if (now_) return now_->waiting_for();
    std::vector<std::int64_t> others;
    for (int r = 0; r < s_.nprocs(); ++r)
        if (r != s_.rank()) others.push_back(r);
    return others;
}

void StartedMove::keep_memory() noexcept {
    SlotOperation::keep_memory();
    if (now_) now_->keep_memory();
}

bool StartedMove::test() {
    if (!round_.test()) return false;
    is_told_ = true;
    agreement_.raise_refusal();
    return true;
}

void StartedMove::wait(std::optional<double> timeout_seconds) {
    round_.wait(timeout_seconds);
    is_told_ = true;
    agreement_.raise_refusal();
}

void SlotOperation::keep_memory() noexcept {
    for (memory::AllocationPtr& memory : used_) s_.group->keep(std::move(memory));
}

std::optional<memory::SharedPlace> SlotOperation::share(const std::byte* data, std::int64_t bytes) {
    memory::AllocationPtr memory = memory::SegmentPool::of_process().find(data, data + bytes);
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
    state.group->failures().check();
    mpi::notifying_failure(*state.group, work);
}

}  // namespace datamover::distribute
