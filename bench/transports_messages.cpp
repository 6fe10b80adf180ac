// SPDX-License-Identifier: BSD-3-Clause
// Hand-written transfers of a step, with MPI.
#include "transports_messages.hpp"

#include <limits>
#include <utility>

namespace bench {
namespace {

constexpr int tag = 7;

std::int64_t total_bytes(const std::vector<Piece>& pieces) {
    std::int64_t bytes = 0;
    for (const Piece& p : pieces) bytes += p.bytes();
    return bytes;
}

/// A datatype for use from MPI_BOTTOM.
class OwnedType {
public:
    OwnedType() = default;
    OwnedType(const std::vector<Piece>& pieces, const std::vector<std::byte*>& arrays) {
        if (!pieces.empty()) type_ = datatype_of(pieces, arrays);
    }
    OwnedType(OwnedType&& other) noexcept { *this = std::move(other); }
    OwnedType& operator=(OwnedType&& other) noexcept {
        std::swap(type_, other.type_);
        return *this;
    }
    ~OwnedType() {
        if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
    }
    explicit operator bool() const { return type_ != MPI_DATATYPE_NULL; }
    MPI_Datatype get() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// One direction of a pair.
struct Message {
    int peer = 0;
    std::vector<Piece> pieces;
    OwnedType type;
    std::vector<std::byte> buffer;
};

class Messages final : public HandWritten {
public:
    Messages(MPI_Comm comm, Way way, const std::vector<Transfer>& transfers,
             const StepArrays& arrays)
        : comm_(comm), way_(way), arrays_(arrays) {
        MPI_Comm_rank(comm, &rank_);
        for (const Transfer& t : transfers) {
            add(received_, t.peer, t.received, arrays.destination);
            add(sent_, t.peer, t.sent, arrays.source);
        }
        requests_.assign(received_.size() + sent_.size(), MPI_REQUEST_NULL);
    }

    void run() override {
        const auto receives = static_cast<int>(received_.size());
        for (std::size_t i = 0; i < received_.size(); ++i) receive(received_[i], requests_[i]);
        for (std::size_t i = 0; i < sent_.size(); ++i)
            send(sent_[i], requests_[received_.size() + i]);
        for (int left = receives; left > 0; --left) {
            int ended = 0;
            MPI_Waitany(receives, requests_.data(), &ended, MPI_STATUS_IGNORE);
            if (ended == MPI_UNDEFINED) break;
            take_apart(received_[static_cast<std::size_t>(ended)]);
        }
        MPI_Waitall(static_cast<int>(sent_.size()), requests_.data() + receives,
                    MPI_STATUSES_IGNORE);
    }

    void pack() override {
        for (Message& m : sent_) put_together(m);
    }
    void unpack() override {
        for (Message& m : received_) take_apart(m);
    }

private:
    bool has_buffers() const { return way_ != Way::datatypes; }
    bool stays_here(const Message& m) const { return way_ == Way::manual && m.peer == rank_; }

    void add(std::vector<Message>& messages, int peer, const std::vector<Piece>& pieces,
             const std::vector<std::byte*>& arrays) {
        if (pieces.empty()) return;
        Message m;
        m.peer = peer;
        m.pieces = pieces;
        auto bytes = static_cast<int>(total_bytes(pieces));
        if (way_ == Way::datatypes || way_ == Way::mpi_pack) m.type = OwnedType(pieces, arrays);
        if (way_ == Way::mpi_pack) MPI_Pack_size(1, m.type.get(), comm_, &bytes);
        if (has_buffers()) m.buffer.resize(static_cast<std::size_t>(bytes));
        messages.push_back(std::move(m));
    }

    void receive(Message& m, MPI_Request& request) {
        if (stays_here(m)) return;
        if (way_ == Way::datatypes)
            MPI_Irecv(MPI_BOTTOM, 1, m.type.get(), m.peer, tag, comm_, &request);
        else
            MPI_Irecv(m.buffer.data(), static_cast<int>(m.buffer.size()), buffer_type(), m.peer,
                      tag, comm_, &request);
    }

    void send(Message& m, MPI_Request& request) {
        if (way_ == Way::datatypes) {
            MPI_Isend(MPI_BOTTOM, 1, m.type.get(), m.peer, tag, comm_, &request);
            return;
        }
        const int bytes = put_together(m);
        if (!stays_here(m)) {
            MPI_Isend(m.buffer.data(), bytes, buffer_type(), m.peer, tag, comm_, &request);
            return;
        }
        for (Message& to : received_)
            if (to.peer == rank_) unpack_from(m.buffer.data(), to);
    }

    MPI_Datatype buffer_type() const { return way_ == Way::mpi_pack ? MPI_PACKED : MPI_BYTE; }

    int put_together(Message& m) {
        int bytes = static_cast<int>(m.buffer.size());
        if (way_ == Way::manual) {
            std::byte* to = m.buffer.data();
            for (const Piece& p : m.pieces) to = bench::pack(p, arrays_.source[p.array], to);
        } else if (way_ == Way::mpi_pack) {
            const int room = bytes;
            bytes = 0;
            MPI_Pack(MPI_BOTTOM, 1, m.type.get(), m.buffer.data(), room, &bytes, comm_);
        }
        return bytes;
    }

    void take_apart(Message& m) {
        if (way_ == Way::manual && !stays_here(m)) {
            unpack_from(m.buffer.data(), m);
        } else if (way_ == Way::mpi_pack) {
            int at = 0;
            MPI_Unpack(m.buffer.data(), static_cast<int>(m.buffer.size()), &at, MPI_BOTTOM, 1,
                       m.type.get(), comm_);
        }
    }

    void unpack_from(const std::byte* from, Message& m) {
        for (const Piece& p : m.pieces) from = bench::unpack(p, arrays_.destination[p.array], from);
    }

    MPI_Comm comm_;
    Way way_;
    StepArrays arrays_;
    int rank_ = 0;
    std::vector<Message> sent_, received_;
    std::vector<MPI_Request> requests_;  ///< receives before sends
};

class OneAlltoallw final : public HandWritten {
public:
    OneAlltoallw(MPI_Comm comm, const std::vector<Transfer>& transfers, const StepArrays& arrays)
        : comm_(comm) {
        int size = 1;
        MPI_Comm_size(comm, &size);
        const auto n = static_cast<std::size_t>(size);
        zeros_.assign(n, 0);
        for (Half* half : {&sent_, &received_}) {
            half->counts.assign(n, 0);
            half->types.assign(n, MPI_BYTE);
        }
        for (const Transfer& t : transfers) {
            set(sent_, t.peer, t.sent, arrays.source);
            set(received_, t.peer, t.received, arrays.destination);
        }
    }

    void run() override {
        MPI_Alltoallw(MPI_BOTTOM, sent_.counts.data(), zeros_.data(), sent_.types.data(),
                      MPI_BOTTOM, received_.counts.data(), zeros_.data(), received_.types.data(),
                      comm_);
    }

private:
    struct Half {
        std::vector<int> counts;
        std::vector<MPI_Datatype> types;
        std::vector<OwnedType> owned;
    };

    static void set(Half& half, int peer, const std::vector<Piece>& pieces,
                    const std::vector<std::byte*>& arrays) {
        if (pieces.empty()) return;
        const auto at = static_cast<std::size_t>(peer);
        half.counts[at] = 1;
        half.types[at] = half.owned.emplace_back(pieces, arrays).get();
    }

    MPI_Comm comm_;
    Half sent_, received_;
    std::vector<int> zeros_;
};

class OneAlltoallv final : public HandWritten {
public:
    OneAlltoallv(MPI_Comm comm, const std::vector<Transfer>& transfers, const StepArrays& arrays)
        : comm_(comm) {
        int size = 1;
        MPI_Comm_size(comm, &size);
        for (Half* half : {&sent_, &received_}) {
            half->counts.assign(static_cast<std::size_t>(size), 0);
            half->starts = half->counts;
        }
        for (const Transfer& t : transfers) {
            set(sent_, t.peer, t.sent, arrays.source);
            set(received_, t.peer, t.received, arrays.destination);
        }
    }

    /// Whether each message of this process is one run, all of them in one array.
    bool fits() const { return sent_.fits && received_.fits; }

    void run() override {
        MPI_Alltoallv(sent_.array, sent_.counts.data(), sent_.starts.data(), MPI_BYTE,
                      received_.array, received_.counts.data(), received_.starts.data(), MPI_BYTE,
                      comm_);
    }

private:
    struct Half {
        bool fits = true;
        std::byte* array = nullptr;
        std::vector<int> counts, starts;
    };

    static void set(Half& half, int peer, const std::vector<Piece>& pieces,
                    const std::vector<std::byte*>& arrays) {
        std::int64_t start = -1, end = -1;
        for (const Piece& p : pieces) {
            half.fits = half.fits && (!half.array || half.array == arrays[p.array]);
            half.array = arrays[p.array];
            for_each_run(p, [&](std::int64_t at, std::int64_t bytes) {
                if (start < 0) start = end = at;
                half.fits = half.fits && at == end;
                end = at + bytes;
            });
        }
        half.fits = half.fits && end <= std::numeric_limits<int>::max();
        if (!half.fits || start < 0) return;
        half.starts[static_cast<std::size_t>(peer)] = static_cast<int>(start);
        half.counts[static_cast<std::size_t>(peer)] = static_cast<int>(end - start);
    }

    MPI_Comm comm_;
    Half sent_, received_;
};

}  // namespace

std::unique_ptr<HandWritten> messages(MPI_Comm comm, Way way,
                                      const std::vector<Transfer>& transfers,
                                      const StepArrays& arrays) {
    return std::make_unique<Messages>(comm, way, transfers, arrays);
}

std::unique_ptr<HandWritten> one_alltoallw(MPI_Comm comm, const std::vector<Transfer>& transfers,
                                           const StepArrays& arrays) {
    return std::make_unique<OneAlltoallw>(comm, transfers, arrays);
}

std::unique_ptr<HandWritten> one_alltoallv(MPI_Comm comm, const std::vector<Transfer>& transfers,
                                           const StepArrays& arrays) {
    auto made = std::make_unique<OneAlltoallv>(comm, transfers, arrays);
    int fits = made->fits() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &fits, 1, MPI_INT, MPI_MIN, comm);
    if (fits == 0) return nullptr;
    return made;
}

}  // namespace bench
