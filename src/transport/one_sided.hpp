// SPDX-License-Identifier: BSD-3-Clause
// Signals between two processes of a node of which one accesses the other's memory.
//
// One side of a pair copies. The other raises `go` when its array may be accessed; the copying side
// raises `done` when it has finished. No message, no barrier.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "geometry/make_error.hpp"
#include "signal_lines.hpp"
#include "transport.hpp"

namespace datamover::transport {

/// The signal lines of a peer, for as long as the peer keeps its side of the mover.
class PeerLines {
public:
    explicit PeerLines(const BindingLine& line)
        : line_(&line), binding_(line.number.load(std::memory_order_acquire)) {}

    /// Throws peer_failed where the peer has given the lines back.
    void require(std::int64_t peer) const {
        if (line_->number.load(std::memory_order_acquire) == binding_) return;
        throw make_error(ErrorCode::peer_failed, "process ", peer,
                         " has freed its side of the mover, or gave it up");
    }

private:
    const BindingLine* line_;
    std::uint64_t binding_;
};

/// A transport in which one side of each pair does all the work. What a copy is, the derived class
/// knows.
class OneSided : public Transport {
public:
    void announce() override {
        ++round_;
        for (const OwnCopy& copy : copies_) copy.theirs.require(copy.peer);
        for (const Offer& offer : offers_) {
            offer.theirs.require(offer.peer);
            offer.go->store(round_, std::memory_order_release);
        }
    }

    void start() override {
        for (OwnCopy& copy : copies_) copy.pending = true;
        pending_ = copies_.size();
        progress();
    }

    Progress progress() override {
        Progress made = Progress::none;
        if (pending_ > 0) {
            for (std::size_t i = 0; i < copies_.size(); ++i) {
                OwnCopy& c = copies_[i];
                if (!c.pending || c.go->load(std::memory_order_acquire) < round_) continue;
                copy(i);
                // What was read of a peer that gave up meanwhile may be something else by now.
                std::atomic_thread_fence(std::memory_order_acquire);
                c.theirs.require(c.peer);
                c.done->store(round_, std::memory_order_release);
                c.pending = false;
                --pending_;
                made = Progress::some;
            }
            if (pending_ > 0) return made;
        }
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) return made;
        return Progress::complete;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (const OwnCopy& copy : copies_)
            if (copy.pending) peers.push_back(copy.peer);
        for (const Offer& offer : offers_)
            if (offer.done->load(std::memory_order_acquire) < round_) peers.push_back(offer.peer);
        return peers;
    }

    void report(std::vector<MoverPair>& lines) const override {
        for (std::size_t i = 0; i < copies_.size(); ++i) lines.push_back(copy_line(i));
        for (const Offer& o : offers_)
            lines.push_back(
                {o.peer, o.sends, name_, "", o.elems, o.bytes, "", 0, "copied by the peer"});
    }

protected:
    explicit OneSided(const char* name) : name_(name) {}

    /// Carries out copy number i, whose peer has begun.
    virtual void copy(std::size_t i) const = 0;
    virtual MoverPair copy_line(std::size_t i) const = 0;

    /// Adds a pair. True: this process copies (the next number), else the peer does.
    bool add_pair(const BindContext& context, const Pair& pair, bool receiver_copies) {
        SignalLine& mine = context.own_signal_line(pair.peer);
        SignalLine& theirs = context.peer_signal_line(pair.peer);
        const PeerLines lines(context.peer_binding_line(pair.peer));
        const Direction here = pair.direction;
        const Direction there = pair.sends() ? incoming : outgoing;
        if (receiver_copies != pair.sends()) {
            copies_.push_back({pair.peer, lines, &mine.go[here], &theirs.done[there]});
            return true;
        }
        offers_.push_back({pair.peer, lines, pair.sends(), pair.elems(),
                           context.message_bytes(pair), &theirs.go[there], &mine.done[here]});
        return false;
    }

private:
    /// A pair in which this process copies.
    struct OwnCopy {
        std::int64_t peer = 0;
        PeerLines theirs;
        std::atomic<std::uint64_t>* go = nullptr;    ///< own line: the peer has begun
        std::atomic<std::uint64_t>* done = nullptr;  ///< the peer's line: written when copied
        bool pending = false;
    };
    /// A pair in which the other process copies.
    struct Offer {
        std::int64_t peer = 0;
        PeerLines theirs;
        bool sends = false;
        std::int64_t elems = 0, bytes = 0;
        std::atomic<std::uint64_t>* go = nullptr;    ///< the peer's line: written at the start
        std::atomic<std::uint64_t>* done = nullptr;  ///< own line: the peer has copied
    };

    const char* name_;
    std::vector<OwnCopy> copies_;
    std::vector<Offer> offers_;
    std::uint64_t round_ = 0;
    std::size_t pending_ = 0;
};

}  // namespace datamover::transport
