// SPDX-License-Identifier: BSD-3-Clause
// User-defined transports: they move data, are measured, and their errors reach all processes.
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "datamover/advanced/user_transport.hpp"
#include "datamover/array_part.hpp"
#include "datamover/block_cyclic.hpp"
#include "datamover/mover.hpp"
#include "mpi_test.hpp"

namespace datamover {
namespace {

enum class Fault { none, throws };
Fault fault = Fault::none;

/// A message at a time, in order, of every pair.
class OneByOne final : public UserTransport {
public:
    OneByOne(const UserTransportContext& context, std::vector<PairMessages> pairs)
        : context_(context), pairs_(std::move(pairs)) {
        for (const PairMessages& pair : pairs_) {
            std::int64_t most = 0;
            for (std::size_t i = 0; i < pair.messages(); ++i) most = std::max(most, pair.bytes(i));
            buffers_.push_back(
                std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(most)));
        }
        requests_.assign(pairs_.size(), MPI_REQUEST_NULL);
        next_.assign(pairs_.size(), 0);
    }
    ~OneByOne() override {
        for (std::size_t i = 0; i < pairs_.size(); ++i)
            if (requests_[i] != MPI_REQUEST_NULL) context_.keep(buffers_[i]);
    }

    void start() override {
        if (fault == Fault::throws) throw std::runtime_error("this one does not want to");
        for (std::size_t i = 0; i < pairs_.size(); ++i) {
            next_[i] = 0;
            begin(i);
        }
    }
    Progress progress() override {
        bool all = true, any = false;
        for (std::size_t i = 0; i < pairs_.size(); ++i) {
            if (next_[i] == pairs_[i].messages()) continue;
            all = false;
            int ended = 0;
            MPI_Test(&requests_[i], &ended, MPI_STATUS_IGNORE);
            if (!ended) continue;
            any = true;
            if (!pairs_[i].sends()) pairs_[i].unpack(next_[i], buffers_[i]->data());
            ++next_[i];
            begin(i);
        }
        return all ? Progress::complete : any ? Progress::some : Progress::none;
    }
    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> peers;
        for (std::size_t i = 0; i < pairs_.size(); ++i)
            if (next_[i] < pairs_[i].messages()) peers.push_back(pairs_[i].peer());
        return peers;
    }
    std::int64_t extra_bytes() const override {
        std::int64_t bytes = 0;
        for (const auto& buffer : buffers_) bytes += static_cast<std::int64_t>(buffer->size());
        return bytes;
    }

private:
    void begin(std::size_t i) {
        const PairMessages& pair = pairs_[i];
        if (next_[i] == pair.messages()) return;
        const int bytes = static_cast<int>(pair.bytes(next_[i]));
        const int peer = static_cast<int>(pair.peer());
        if (pair.sends()) {
            pair.pack(next_[i], buffers_[i]->data());
            MPI_Isend(buffers_[i]->data(), bytes, MPI_BYTE, peer, context_.tag, context_.comm,
                      &requests_[i]);
        } else {
            MPI_Irecv(buffers_[i]->data(), bytes, MPI_BYTE, peer, context_.tag, context_.comm,
                      &requests_[i]);
        }
    }

    UserTransportContext context_;
    std::vector<PairMessages> pairs_;
    std::vector<std::shared_ptr<std::vector<std::byte>>> buffers_;
    std::vector<MPI_Request> requests_;
    std::vector<std::size_t> next_;
};

void add_kinds() {
    static bool added = false;
    if (added) return;
    added = true;
    add_transport({"one-by-one", {}, [](const auto& context, auto pairs) {
                       return std::make_unique<OneByOne>(context, std::move(pairs));
                   }});
    add_transport({"upwards", [](auto from, auto to, bool) { return from < to; },
                   [](const auto& context, auto pairs) {
                       return std::make_unique<OneByOne>(context, std::move(pairs));
                   }});
}

/// Columns of a matrix of rows go round: element (i, j) with even j to the next process.
struct Ring {
    static constexpr std::int64_t width = 6;
    FloorPlan blocks;
    std::vector<std::int64_t> from, to;
    MPI_Comm comm = MPI_COMM_NULL;

    Ring() : blocks(boxes(), ranks(), size()), from(width), to(width, -1) {
        add_kinds();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        std::iota(from.begin(), from.end(), 100 * mpi_test::world_rank());
    }
    ~Ring() { MPI_Comm_free(&comm); }

    static std::int64_t size() { return mpi_test::world_size(); }
    static std::vector<Region> boxes() {
        std::vector<Region> all;
        for (std::int64_t i = 0; i < size(); ++i)
            all.push_back(Region({width * i}, {width * i + width}));
        return all;
    }
    static std::vector<std::int64_t> ranks() {
        std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
        std::iota(all.begin(), all.end(), 0);
        return all;
    }
    /// Element 0 of each block goes to element 0 of the next.
    MotionPlan plan() const {
        MotionPlan plan(blocks, blocks);
        for (std::int64_t i = 0; i < size(); ++i) {
            const std::int64_t next = (i + 1) % size();
            plan.add_section(i, Region({width * i}, {width * i + 1}), next,
                             Region({width * next}, {width * next + 1}));
        }
        return plan;
    }
    ArrayPart part(std::vector<std::int64_t>& values) const {
        const UserBlock block{
            mpi_test::world_rank(), reinterpret_cast<std::byte*>(values.data()), {8}, {}, {}};
        return user_part(blocks, {&block, 1}, 8, ScalarType::int64);
    }
    Mover mover(const std::string& transport, std::int64_t max_bytes = 0) {
        MoverOptions options;
        options.transport = transport;
        options.max_bytes = max_bytes;
        return Mover(comm, plan(), part(from), part(to), options);
    }
    /// 0 where it goes well.
    int code_of(const std::string& transport) {
        try {
            mover(transport)();
            return 0;
        } catch (const Error& e) {
            return static_cast<int>(e.code());
        }
    }
    void expect_moved() const {
        const std::int64_t before = (mpi_test::world_rank() + size() - 1) % size();
        EXPECT_EQ(to[0], 100 * before);
        for (std::size_t i = 1; i < to.size(); ++i) EXPECT_EQ(to[i], -1);
    }
};

class UserTransports : public ::testing::Test {
protected:
    void TearDown() override { fault = Fault::none; }
};

TEST_F(UserTransports, CarryLikeOthers) {
    for (const char* name : {"one-by-one", "upwards+p2p", "shared+one-by-one"})
        for (const std::int64_t limit : {0, 1000}) {
            Ring ring;
            Mover mover = ring.mover(name, limit);
            for (int round = 0; round < 3; ++round) mover();
            ring.expect_moved();
            if (limit > 0) {
                EXPECT_LE(mover.extra_bytes(), limit);
            }
        }
}

TEST_F(UserTransports, AreMeasuredToo) {
    Ring ring;
    Mover mover = ring.mover("auto");
    mover.tune(0.01);
    mover();
    ring.expect_moved();
    bool found = Ring::size() == 1;
    for (const MoverTrial& trial : mover.trials()) found = found || trial.transport == "one-by-one";
    EXPECT_TRUE(found);
}

TEST_F(UserTransports, RefuseWhatTheyCannotCarry) {
    Ring ring;
    const int right = Ring::size() > 1 ? static_cast<int>(ErrorCode::unsupported) : 0;
    EXPECT_EQ(ring.code_of("upwards"), right);
    EXPECT_THROW(add_transport({"p2p", {}, [](const auto&, auto) { return nullptr; }}), Error);
    EXPECT_THROW(add_transport({"", {}, [](const auto&, auto) { return nullptr; }}), Error);
    EXPECT_THROW(add_transport({"a+b", {}, [](const auto&, auto) { return nullptr; }}), Error);
    EXPECT_THROW(add_transport({"sixteen-letters-", {}, [](const auto&, auto) { return nullptr; }}),
                 Error);
    EXPECT_THROW(add_transport({"bindless", {}, {}}), Error);
}

TEST_F(UserTransports, ThatThrowEndTheRoundOfAll) {
    if (Ring::size() == 1) return;
    Ring ring;
    if (mpi_test::world_rank() == 0) fault = Fault::throws;
    const int code = ring.code_of("one-by-one");
    const bool waits = mpi_test::world_rank() <= 1;  // the others may be through before
    if (waits || code != 0) {
        EXPECT_EQ(code, static_cast<int>(ErrorCode::peer_failed));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    setenv("DATAMOVER_TUNING_FILE", "", 1);
    return mpi_test::run(argc, argv);
}
