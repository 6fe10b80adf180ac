// SPDX-License-Identifier: BSD-3-Clause
// Rates of transports: "auto" uses them, the same ones on all processes. Includes the file that
// stores them.
#include "datamover/advanced/transport_rates.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/mover.hpp"
#include "geometry/make_error.hpp"
#include "mover/tuning.hpp"
#include "mpi_test.hpp"

namespace datamover {
namespace {

/// The rates of a test, which go with it.
class RatesOf {
public:
    explicit RatesOf(const TransportRates& rates) : before_(transport_rates()) {
        set_transport_rates(rates);
    }
    ~RatesOf() { set_transport_rates(before_); }
    RatesOf(const RatesOf&) = delete;
    RatesOf& operator=(const RatesOf&) = delete;

private:
    TransportRates before_;
};

TransportRates slots_for_nothing() {
    TransportRates rates;
    rates.staged_message = rates.staged_line = rates.slot_run = rates.slot_byte = 1e-3;
    return rates;
}

TransportRates copies_for_nothing() {
    TransportRates rates;
    rates.shared_message = rates.shared_line = rates.read_run = rates.read_byte = 1e-3;
    return rates;
}

/// How each pair of a mover is carried and why, of pairs with others.
struct Carried {
    std::string transports, why;

    explicit Carried(const Mover& mover) {
        for (const MoverPair& pair : mover.pairs())
            if (pair.peer != mpi_test::world_rank()) {
                if (transports.find(pair.transport) == std::string::npos)
                    transports += pair.transport;
                why = pair.why;
            }
    }
};

/// Rows of a matrix per process from the `first` on, with those of both neighbours around them, all
/// around.
struct Ghosts {
    static constexpr std::int64_t rows = 4, columns = 16;
    std::int64_t first, blocks_count;
    FloorPlan blocks;
    Array array;
    MotionPlan plan;

    explicit Ghosts(std::int64_t first_process = 0)
        : first(first_process),
          blocks_count(mpi_test::world_size() - first),
          blocks(FloorPlan::uniform(Region::from_shape({rows * blocks_count, columns}),
                                    {blocks_count, 1}, blocks_count)
                     .with_owners(owners(), mpi_test::world_size())),
          array(MPI_COMM_WORLD, blocks, sizeof(double), with_ghosts()),
          plan(
              halo(blocks, Point{1, 1}, Point{1, 1}, blocks.bounding_box(), {true, false}, false)) {
        if (block() < 0) return;
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j) *at(i, j) = value(block() * rows + i, j);
    }

    std::int64_t block() const { return mpi_test::world_rank() - first; }
    Map owners() const {
        Map ranks;
        for (std::int64_t b = 0; b < blocks_count; ++b) ranks.push_back(first + b);
        return ranks;
    }
    static ArrayOptions with_ghosts() {
        ArrayOptions options;
        options.ghost_lower = options.ghost_upper = Point{1, 1};
        return options;
    }
    double value(std::int64_t i, std::int64_t j) const {
        const std::int64_t all = rows * blocks_count;
        return static_cast<double>(100 * ((i + all) % all) + j);
    }
    double* at(std::int64_t i, std::int64_t j) const {
        return reinterpret_cast<double*>(array.origin(block())) + i * (columns + 2) + j;
    }
    /// Every ghost, as one process alone would have it.
    bool right() const {
        if (block() < 0) return true;
        bool all = true;
        for (const std::int64_t i : {std::int64_t{-1}, rows})
            for (std::int64_t j = 0; j < columns; ++j)
                all = all && *at(i, j) == value(block() * rows + i, j);
        return all;
    }
};

Carried exchanged(Ghosts& ghosts) {
    Mover mover(MPI_COMM_WORLD, ghosts.plan, ghosts.array, ghosts.array);
    mover();
    EXPECT_TRUE(ghosts.right());
    return Carried(mover);
}

/// Whether all processes are on one node, where the rates count.
bool on_one_node() {
    return mpi_test::environment_number("DATAMOVER_NODE_SIZE", 1 << 20) >= mpi_test::world_size();
}

TEST(TransportRates, DecideHowGhostsGo) {
    if (mpi_test::world_size() == 1 || !on_one_node()) GTEST_SKIP() << "no pair on a node";
    Ghosts ghosts;
    {
        const RatesOf rates(slots_for_nothing());
        const Carried carried = exchanged(ghosts);
        EXPECT_EQ(carried.transports, "staged");
        EXPECT_NE(carried.why.find("by measured rates"), std::string::npos) << carried.why;
    }
    {
        const RatesOf rates(copies_for_nothing());
        EXPECT_EQ(exchanged(ghosts).transports, "shared");
    }
    const RatesOf rates(TransportRates{});
    const Carried carried = exchanged(ghosts);
    EXPECT_EQ(carried.transports, "shared");  // 128 bytes
    EXPECT_NE(carried.why.find("by built-in rates"), std::string::npos) << carried.why;
}

TEST(TransportRates, OfProcessZeroCountForAll) {
    const bool is_zero = mpi_test::world_rank() == 0;
    for (const int first : {0, 1})  // process 0 may also have nothing to exchange
        for (const bool slots : {true, false}) {
            if (mpi_test::world_size() < first + 1) continue;
            Ghosts ghosts(first);
            const RatesOf rates(is_zero == slots ? slots_for_nothing() : copies_for_nothing());
            const Carried carried = exchanged(ghosts);
            if (mpi_test::world_size() < first + 2 || !on_one_node() || ghosts.block() < 0)
                continue;
            EXPECT_EQ(carried.transports, slots ? "staged" : "shared");
        }
}

/// What each process has, to the next one; in memory that the library did not make.
Carried swapped() {
    const std::int64_t size = mpi_test::world_size(), me = mpi_test::world_rank();
    constexpr std::int64_t elems = 1000;
    const FloorPlan from =
        FloorPlan::uniform(Region::from_shape({elems * size}), Point{size}, size);
    Map owners;
    for (std::int64_t i = 0; i < size; ++i) owners.push_back((i + 1) % size);
    const FloorPlan to = from.with_owners(owners);
    const std::int64_t before = (me + size - 1) % size;
    std::vector<double> sent(elems, static_cast<double>(me)), received(elems, -1);
    const auto part = [](const FloorPlan& blocks, std::int64_t block, std::vector<double>& memory) {
        const UserBlock own{
            block, reinterpret_cast<std::byte*>(memory.data()), Point{sizeof(double)}, {}, {}};
        return user_part(blocks, {&own, 1}, sizeof(double));
    };
    Mover mover(MPI_COMM_WORLD, redistribute(from, to), part(from, me, sent),
                part(to, before, received));
    mover();
    EXPECT_EQ(received, std::vector<double>(elems, static_cast<double>(before)));
    return Carried(mover);
}

TEST(TransportRates, DecideWhetherMemoryIsRead) {
    const auto ways = [](const TransportRates& wanted) {
        const RatesOf rates(wanted);
        return swapped().transports;
    };
    const std::string slots = ways(slots_for_nothing()), copies = ways(copies_for_nothing());
    if (mpi_test::world_size() == 1 || !on_one_node()) return;
    EXPECT_EQ(slots, "staged");
    // Some systems do not let processes read each other's memory.
    EXPECT_TRUE(copies == "read" || copies == "staged") << copies;
}

TEST(TransportRates, WithoutSenseAreRefused) {
    const TransportRates before = transport_rates();
    for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
        TransportRates rates;
        rates.read_byte = wrong;
        EXPECT_THROW(set_transport_rates(rates), Error);
        EXPECT_TRUE(transport_rates() == before);
    }
}

/// A directory of this process's with a tuning file in it, which go with this object.
class Folder {
public:
    Folder() {
        char name[] = "/tmp/datamover-tuning-XXXXXX";
        EXPECT_NE(mkdtemp(name), nullptr);
        path_ = name;
        add_to_tuning_file(file(), 1, "p2p");
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::filesystem::path path() const { return path_; }
    std::string file() const { return path_ / "tuning"; }
    std::ptrdiff_t files() const {
        return std::distance(std::filesystem::directory_iterator(path_), {});
    }
    static std::string content(const std::string& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    std::filesystem::path path_;
};

TEST(TuningFile, OverwritesNothingThatOthersPutBesideIt) {
    const Folder folder;
    const std::string other = folder.path() / "other";
    std::ofstream(other) << "theirs";
    // A name that others could foresee.
    std::filesystem::create_symlink("other", concat(folder.file(), ".", getpid()));
    add_to_tuning_file(folder.file(), 2, "put");
    EXPECT_EQ(Folder::content(other), "theirs");
    EXPECT_EQ(find_in_tuning_file(folder.file(), 2), "put");
    EXPECT_EQ(folder.files(), 3);
}

TEST(TuningFile, IsWholeAtAnyTimeThoughSeveralWrite) {
    const Folder folder;
    std::atomic<int> writing = 3;
    std::vector<std::thread> writers;
    for (int key = 2; key < 5; ++key)
        writers.emplace_back([&, key] {
            for (int i = 0; i < 100; ++i)
                add_to_tuning_file(folder.file(), key, std::string(10 * key, 'x'));
            --writing;
        });
    const std::string first_line = "datamover tuning 1\n";
    bool is_whole = true;
    while (writing > 0) {
        const std::string text = Folder::content(folder.file());
        is_whole = is_whole && text.starts_with(first_line) && text.size() > first_line.size() &&
                   text.back() == '\n';
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_TRUE(is_whole);
    EXPECT_EQ(folder.files(), 1);
    const std::string last = Folder::content(folder.file());
    EXPECT_TRUE(last.find("xxx") != std::string::npos) << last;
}

TEST(TuningFile, StaysWithoutRoomForAnother) {
    const Folder folder;
    const std::string before = Folder::content(folder.file());
    rlimit usual{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
    const rlimit little{before.size(), usual.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    add_to_tuning_file(folder.file(), 2, "put");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
    EXPECT_EQ(Folder::content(folder.file()), before);
    EXPECT_EQ(folder.files(), 1);
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    setenv("DATAMOVER_TUNING_FILE", "", 1);
    return mpi_test::run(argc, argv);
}
