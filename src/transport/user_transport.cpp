// SPDX-License-Identifier: BSD-3-Clause
// Adapter that runs a user's transport like the library's own.
#include "datamover/advanced/user_transport.hpp"

#include <utility>

#include "geometry/make_error.hpp"
#include "transport.hpp"

namespace datamover {

PairMessages::PairMessages(std::int64_t peer, bool sends,
                           std::shared_ptr<const transport::PairProgram> program)
    : peer_(peer), sends_(sends), program_(std::move(program)) {}

std::size_t PairMessages::messages() const {
    return program_->chunks();
}

std::int64_t PairMessages::bytes(std::size_t message) const {
    return program_->chunk_bytes(message);
}

void PairMessages::pack(std::size_t message, std::byte* to) const {
    program_->pack(message, to);
}

void PairMessages::unpack(std::size_t message, const std::byte* from) const {
    program_->unpack(message, from);
}

std::byte* PairMessages::in_place(std::size_t message) const {
    return program_->in_place(message);
}

namespace transport {
namespace {

class AddedTransport final : public Transport {
public:
    AddedTransport(const BindContext& context, const std::vector<Pair>& pairs,
                   const UserTransportKind& kind) {
        std::vector<PairMessages> messages;
        for (const Pair& pair : pairs) {
            auto program = std::make_shared<const PairProgram>(
                context.message_program(pair, {context.chunk_bytes}));
            add_line(context, pair, *program);
            messages.emplace_back(pair.peer, pair.sends(), std::move(program));
        }
        const auto keep = [group = context.group](std::shared_ptr<const void> memory) {
            group->abandon(std::move(memory));
        };
        user_ = kind.bind({context.group->comm(), context.tag(), context.buffers, keep},
                          std::move(messages));
        if (!user_)
            throw make_error(ErrorCode::invalid_state, "transport \"", kind.name,
                             "\" bound to nothing");
    }

    void start() override { user_->start(); }
    Progress progress() override { return user_->progress(); }
    std::vector<std::int64_t> waiting_for() const override { return user_->waiting_for(); }
    bool needs_polls() const override { return true; }
    std::int64_t extra_bytes() const override { return user_->extra_bytes(); }

private:
    std::unique_ptr<UserTransport> user_;
};

}  // namespace
}  // namespace transport

void add_transport(UserTransportKind kind) {
    if (!kind.bind)
        throw make_error(ErrorCode::invalid_argument, "transport \"", kind.name,
                         "\" comes without bind");
    constexpr std::size_t longest = 15;
    const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const bool is_name = !kind.name.empty() && kind.name.size() <= longest &&
                         kind.name.find_first_not_of(letters) == std::string::npos;
    if (!is_name || transport::is_transport_name(kind.name) || kind.name == "measure")
        throw Error(
            ErrorCode::invalid_argument,
            "a transport cannot be called \"" + kind.name +
                "\"; a name that is not taken is needed, of at most 15 letters, digits, _ and -");
    const auto given = std::make_shared<const UserTransportKind>(std::move(kind));
    transport::transport_kinds().push_back({
        .name = given->name,
        .memory = transport::MessageMemory::buffers,
        .takes = transport::AcceptedOption::chunk_bytes,
        .sends_messages = true,
        .carries =
            [given](const transport::PairFacts& f) {
                return !f.same_process &&
                       (!given->carries ||
                        given->carries(f.source_rank, f.destination_rank, f.same_node));
            },
        .reason = transport::always("added by the program"),
        .bind =
            [given](const transport::BindContext& context,
                    const std::vector<transport::Pair>& pairs) {
                return std::make_unique<transport::AddedTransport>(context, pairs, *given);
            },
        .why_not = transport::always("the program says so"),
    });
}

}  // namespace datamover
