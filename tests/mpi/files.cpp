// SPDX-License-Identifier: BSD-3-Clause
// Files: the saved bytes are those of the array, other processes load it in other layouts, and a
// failing system call on one process is an error on all.
//
// Only the C++ library reads and writes files here. This program's own functions intercept those of
// the C library: for every k, the k-th call of `save` or `load` that concerns the file fails on one
// process. Then all processes raise the error, and the file that existed before is unchanged.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datamover/datamover.hpp"
#include "mpi_test.hpp"

namespace {

/// Counts the calls of this process for files of the test and lets one of them fail.
struct Injector {
    bool armed = false, failed = false;
    int failing_call = -1, calls = 0, error = EIO;
    std::string directory;
    std::set<int> files;
    std::function<void()> before_read = {};  // called once

    bool fails() {
        if (!armed || calls++ != failing_call) return false;
        failed = true;
        errno = error;
        return true;
    }
    bool is_ours(const char* path) const {
        return armed && std::strstr(path, directory.c_str()) != nullptr;
    }
    bool is_ours(int fd) const { return armed && files.count(fd) > 0; }
};
Injector injector;

template <class Function>
Function* next(Function*, const char* name) {
    static_assert(sizeof(Function*) == sizeof(void*));
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {
int open(const char* path, int flags, ...) {
    static auto* const real = next(&open, "open");
    std::va_list more;
    va_start(more, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    const bool ours = injector.armed && (flags & O_DIRECTORY) == 0 && injector.is_ours(path);
    if (ours && injector.fails()) return -1;
    const int fd = real(path, flags, mode);
    if (ours && fd >= 0) injector.files.insert(fd);
    return fd;
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
    static auto* const real = next(&pwrite, "pwrite");
    if (injector.is_ours(fd) && injector.fails()) return -1;
    // Less than was asked for, as the system may write.
    return real(fd, bytes, injector.is_ours(fd) && count > 100 ? count / 2 : count, at);
}
ssize_t pread(int fd, void* bytes, size_t count, off_t at) {
    static auto* const real = next(&pread, "pread");
    if (injector.is_ours(fd) && injector.before_read)
        std::exchange(injector.before_read, std::function<void()>())();
    if (injector.is_ours(fd) && injector.fails()) return -1;
    return real(fd, bytes, injector.is_ours(fd) && count > 100 ? count / 2 : count, at);
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
    static auto* const real = next(&fallocate, "fallocate");
    return injector.is_ours(fd) && injector.fails() ? -1 : real(fd, mode, at, bytes);
}
int fsync(int fd) {
    static auto* const real = next(&fsync, "fsync");
    return injector.is_ours(fd) && injector.fails() ? -1 : real(fd);
}
int rename(const char* from, const char* to) noexcept {
    static auto* const real = next(&rename, "rename");
    return injector.is_ours(from) && injector.fails() ? -1 : real(from, to);
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept {
    static auto* const real = next(&renameat2, "renameat2");
    return injector.is_ours(from) && injector.fails() ? -1 : real(a, from, b, to, flags);
}
}

namespace datamover {
namespace {

using mpi_test::Draws;

/// A new directory that all processes use, removed at the end.
class Folder {
public:
    Folder() {
        std::array<char, 256> name{};
        if (mpi_test::world_rank() == 0) {
            const std::string made =
                (std::filesystem::temp_directory_path() / "datamover-files-XXXXXX").string();
            std::copy(made.begin(), made.end(), name.begin());
            if (!mkdtemp(name.data())) std::abort();
        }
        MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
        path_ = name.data();
    }
    ~Folder() {
        MPI_Barrier(MPI_COMM_WORLD);
        if (mpi_test::world_rank() == 0) std::filesystem::remove_all(path_);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string path(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }
    /// What lies in it, the same on all processes.
    std::set<std::string> names() const {
        MPI_Barrier(MPI_COMM_WORLD);
        std::set<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(path_))
            found.insert(entry.path().filename().string());
        MPI_Barrier(MPI_COMM_WORLD);
        return found;
    }

private:
    std::string path_;
};

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Written by process 0, once all have come.
void put(const std::string& path, const std::string& bytes) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (mpi_test::world_rank() == 0) std::ofstream(path, std::ios::binary) << bytes;
    MPI_Barrier(MPI_COMM_WORLD);
}

std::int64_t value_at(std::int64_t flat) {
    return 1000003 * flat + 17;
}

std::string words(std::int64_t elems) {
    std::string bytes(static_cast<std::size_t>(elems) * 8, '\0');
    for (std::int64_t k = 0; k < elems; ++k) {
        const std::int64_t value = value_at(k);
        std::memcpy(bytes.data() + 8 * k, &value, 8);
    }
    return bytes;
}

/// A layout of any kind over [lo, lo + shape), each element with an owner.
Layout drawn_layout(Draws& draws, const Point& lo, const Point& shape, int nprocs) {
    const bool at_origin = lo == Point::filled(lo.dims(), 0);
    const int kind = at_origin ? draws.from(0, 3) : 3;
    if (kind == 0) {
        std::string distribution;
        for (int d = 0; d < shape.dims(); ++d)
            distribution += std::string(d ? ", " : "(") +
                            std::array{"block", "cyclic", "cyclic(2)",
                                       "*"}[static_cast<std::size_t>(draws.from(0, 3))];
        BlockCyclicOptions options;
        if (nprocs > 1 && draws.one_in(4)) options.replicas = 2;
        return BlockCyclic(shape, distribution + ")", nprocs, options);
    }
    if (kind == 1) return FlatCyclic(shape, draws.from(1, 20), nprocs);
    if (kind == 2) {
        const std::int64_t elems = shape.product();
        std::vector<std::int64_t> indices =
            draws.ranks(static_cast<int>(elems), static_cast<int>(elems));
        std::vector<std::int64_t> offsets(static_cast<std::size_t>(nprocs) + 1, elems);
        offsets[0] = 0;
        for (std::size_t k = 1; k + 1 < offsets.size(); ++k)
            offsets[k] = offsets[k - 1] + draws.from(0, static_cast<int>(elems - offsets[k - 1]));
        return IndexList(shape, offsets, indices);
    }
    Point tile = shape;
    for (int d = 0; d < shape.dims(); ++d) tile[d] = draws.from(1, static_cast<int>(shape[d]));
    return FloorPlan::tiles(Region::from_shape(shape).shifted(lo), tile, nprocs, "cyclic");
}

/// The global index of each element of a block, in the order of its local indices.
std::vector<std::int64_t> flat_indices(const Layout& layout, std::int64_t block) {
    std::vector<std::int64_t> found;
    const Region domain = layout.domain();
    const auto flat = [&](const Point& index) {
        std::int64_t at = 0;
        for (int d = 0; d < domain.dims(); ++d)
            at = at * domain.extent(d) + index[d] - domain.lo()[d];
        return at;
    };
    if (const auto* blocks = layout.block_cyclic()) {
        const std::int64_t rank = layout.owner(block);
        Region::from_shape(blocks->local_shape(rank)).for_each([&](const Point& local) {
            found.push_back(flat(blocks->global_index(rank, local)));
        });
    } else if (const auto* boxes = layout.floor_plan()) {
        boxes->region(block).for_each([&](const Point& index) { found.push_back(flat(index)); });
    } else if (const auto* list = layout.index_list()) {
        for (const std::int64_t index : list->indices_of(layout.owner(block)))
            found.push_back(index);
    } else {
        const FlatCyclic& ranges = *layout.flat_cyclic();
        for (std::int64_t k = 0; k < ranges.elems(); ++k)
            if (ranges.place_of(k).block == block) found.push_back(k);
    }
    return found;
}

/// Calls visit(element, flat index) for all elements of an array here.
void for_each(const Array& array, const std::function<void(std::int64_t&, std::int64_t)>& visit) {
    for (const std::int64_t block : array.layout().blocks_of(array.rank())) {
        const std::vector<std::int64_t> flat = flat_indices(array.layout(), block);
        if (flat.empty()) continue;
        const BlockMemory& memory = array.block_memory(block);
        const Point extents = array.layout().block_extents(block);
        std::size_t k = 0;
        Region::from_shape(extents).for_each([&](const Point& local) {
            std::byte* at = array.origin(block);
            for (int d = 0; d < local.dims(); ++d) at += local[d] * memory.strides_bytes[d];
            visit(*reinterpret_cast<std::int64_t*>(at), flat[k++]);
        });
    }
}

ArrayOptions of_numbers(ElementOrder order = ElementOrder::row_major) {
    ArrayOptions options;
    options.type = ScalarType::int64;
    options.order = order;
    return options;
}

/// The first processes as a communicator of their own; MPI_COMM_NULL on others.
class First {
public:
    explicit First(int count) {
        MPI_Comm_split(MPI_COMM_WORLD, mpi_test::world_rank() < count ? 0 : MPI_UNDEFINED, 0,
                       &comm_);
    }
    ~First() {
        if (takes_part()) MPI_Comm_free(&comm_);
    }
    First(const First&) = delete;
    First& operator=(const First&) = delete;
    MPI_Comm comm() const { return comm_; }
    bool takes_part() const { return comm_ != MPI_COMM_NULL; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

FileOptions drawn_file_options(Draws& draws, int nprocs) {
    FileOptions options;
    options.max_bytes = draws.one_in(3) ? 1 << 20 : draws.from(1, 600);
    if (draws.one_in(2)) options.ranks = draws.ranks(nprocs, draws.from(1, nprocs));
    options.overwrite = draws.one_in(2);
    return options;
}

TEST(Files, OfAnyLayoutHoldTheArrayAndComeBackOnOtherProcesses) {
    Draws draws(31);
    const Folder folder;
    const int size = mpi_test::world_size();
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < mpi_test::oracle_cases(size) / 10; ++round) {
        const int dims = draws.from(1, 4);
        Point shape = Point::filled(dims, 1), lo = Point::filled(dims, 0);
        const int widest = std::array{300, 25, 9, 6}[static_cast<std::size_t>(dims - 1)];
        for (int d = 0; d < dims; ++d) {
            shape[d] = draws.from(1, widest);
            if (round % 4 == 0) lo[d] = draws.from(-3, 3);
        }
        // Rows with which ranges of the flattened array hardly ever repeat.
        if (dims == 3 && round % 4 != 0) shape = {17, 19, 7};
        const bool is_npy = draws.one_in(2);
        const std::string path =
            folder.path("a" + std::to_string(round) + (is_npy ? ".npy" : ".raw"));
        const First writers(draws.from(1, size)), readers(draws.from(1, size));
        for (const First* group : {&writers, &readers}) {
            int nprocs = 1;
            if (group->takes_part()) MPI_Comm_size(group->comm(), &nprocs);
            MPI_Bcast(&nprocs, 1, MPI_INT, 0, MPI_COMM_WORLD);
            const Layout layout = drawn_layout(draws, lo, shape, nprocs);
            const ArrayOptions array_options =
                of_numbers(draws.one_in(2) ? ElementOrder::column_major : ElementOrder::row_major);
            const FileOptions options = drawn_file_options(draws, nprocs);
            if (group->takes_part()) {
                Array array(group->comm(), layout, 8, array_options);
                if (group == &writers) {
                    for_each(array, [](std::int64_t& e, std::int64_t k) { e = value_at(k); });
                    save(group->comm(), path, array.part(), options);
                } else {
                    for_each(array, [](std::int64_t& e, std::int64_t) { e = -1; });
                    load(group->comm(), path, array.part(), options);
                    for_each(array, [&](std::int64_t& e, std::int64_t k) {
                        comparisons.note(e == value_at(k),
                                         layout.describe() + ", case " + std::to_string(round));
                    });
                }
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        const std::string stored = bytes_of(path), expected = words(shape.product());
        comparisons.note(
            stored.ends_with(expected) && (is_npy ? stored.size() % 64 == expected.size() % 64
                                                  : stored.size() == expected.size()),
            "the file of case " + std::to_string(round));
    }
    comparisons.expect_all();
}

/// 0 where all went well, else the code of the error, once it is the same on all processes.
int outcome_of(const std::function<void()>& work) {
    int code = 0;
    try {
        work();
    } catch (const Error& e) {
        code = static_cast<int>(e.code());
    }
    int least = 0, most = 0;
    MPI_Allreduce(&code, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&code, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return least == most ? code : -1;
}
int code_of(ErrorCode code) {
    return static_cast<int>(code);
}

struct NumberedArray {
    BlockCyclic rows{Point{7, 11}, "(block, *)", mpi_test::world_size()};
    Array array{MPI_COMM_WORLD, rows, 8, of_numbers()};
    NumberedArray() {
        for_each(array, [](std::int64_t& e, std::int64_t k) { e = value_at(k); });
    }
    void save_to(const std::string& path, FileOptions options = {}) const {
        save(MPI_COMM_WORLD, path, array.part(), options);
    }
    void load_from(const std::string& path) const { load(MPI_COMM_WORLD, path, array.part()); }
};

TEST(Files, WrongThingsAreToldToAllAndLeaveNothing) {
    const Folder folder;
    const NumberedArray a;
    const int rank = mpi_test::world_rank(), size = mpi_test::world_size();
    const std::string there = folder.path("there.raw");
    put(there, "old");
    put(folder.path("short.raw"), words(7 * 11 - 1));
    put(folder.path("long.raw"), words(7 * 11 + 1));
    put(folder.path("none.npy"), words(7 * 11));
    const auto before = folder.names();
    const auto expect = [&](ErrorCode code, const std::function<void()>& work) {
        EXPECT_EQ(outcome_of(work), code_of(code));
        EXPECT_EQ(folder.names(), before);
    };
    expect(ErrorCode::io, [&] { a.save_to(there); });
    expect(ErrorCode::io, [&] { a.save_to(folder.path("no such folder/a.raw")); });
    expect(ErrorCode::io, [&] { a.save_to(folder.path(), {.format = FileFormat::raw}); });
    expect(ErrorCode::invalid_argument, [&] { a.save_to(folder.path("a.txt")); });
    expect(ErrorCode::invalid_argument, [&] { a.save_to(folder.path("a.raw"), {.max_bytes = 0}); });
    expect(ErrorCode::out_of_range, [&] { a.save_to(folder.path("a.raw"), {.ranks = {size}}); });
    expect(ErrorCode::invalid_argument,
           [&] { a.save_to(folder.path("a.raw"), {.ranks = {0, 0}}); });
    if (size > 1) {
        expect(ErrorCode::mismatch, [&] { a.save_to(folder.path(rank == 1 ? "a.raw" : "b.raw")); });
        expect(ErrorCode::mismatch, [&] { a.save_to(folder.path("a.raw"), {.ranks = {rank}}); });
    }
    expect(ErrorCode::io, [&] { a.load_from(folder.path("nothing.raw")); });
    expect(ErrorCode::io, [&] { a.load_from(folder.path("short.raw")); });
    expect(ErrorCode::io, [&] { a.load_from(folder.path("long.raw")); });
    expect(ErrorCode::io, [&] { a.load_from(folder.path("none.npy")); });
    // Half of the boxes: an element that nobody holds.
    const FloorPlan half({Region({0}, {5}), Region({10}, {15})}, std::vector<std::int64_t>{0, 0},
                         size);
    const Array holes(MPI_COMM_WORLD, half, 8);
    expect(ErrorCode::mismatch, [&] { save(MPI_COMM_WORLD, folder.path("a.raw"), holes.part()); });
    EXPECT_EQ(bytes_of(there), "old");
    EXPECT_EQ(outcome_of([&] { a.save_to(there, {.overwrite = true}); }), 0);
    EXPECT_EQ(bytes_of(there), words(7 * 11));
}

/// An .npy file of version 1 with any header.
std::string npy(const std::string& header, const std::string& elements) {
    std::string file = "\x93NUMPY";
    file += {1, 0, static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
    return file + header + elements;
}

TEST(Files, OfOthersAreConvertedOrRefused) {
    const Folder folder;
    const NumberedArray a;
    const std::string elements = words(7 * 11), path = folder.path("x.npy");
    const auto dict = [](const std::string& descr, const std::string& shape) {
        return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n";
    };
    const std::string right = dict("'<i8'", "(7, 11)");
    const std::vector<std::pair<std::string, ErrorCode>> files = {
        {npy(right, elements), ErrorCode{}},
        {npy(right, elements + "more"), ErrorCode{}},
        {npy("{\"shape\":(7L,11L),\"fortran_order\":False,\"descr\":\"<i8\"}", elements),
         ErrorCode{}},
        {npy(dict("'<f8'", "(7, 11)"), elements), ErrorCode::wrong_type},
        {npy(dict("'>i8'", "(7, 11)"), elements), ErrorCode::wrong_type},
        {npy(dict("'|O'", "(7, 11)"), elements), ErrorCode::wrong_type},
        {npy(dict("'<i99999999999999999999'", "(7, 11)"), elements), ErrorCode::wrong_type},
        {npy(dict("[('a', '<i8')]", "(7, 11)"), elements), ErrorCode::wrong_type},
        {npy(dict("'<i8'", "(11, 7)"), elements), ErrorCode::mismatch},
        {npy(dict("'<i8'", "()"), elements), ErrorCode::mismatch},
        {npy(dict("'<i8'", "(1,1,1,1,1,1,1,7,11)"), elements), ErrorCode::unsupported},
        {npy(dict("'<i8'", "(7, -11)"), elements), ErrorCode::io},
        {npy(dict("'<i8'", "(7, 11"), elements), ErrorCode::io},
        {npy(dict("[('a'", "(7, 11)"), elements), ErrorCode::io},
        {npy("{'descr': '<i8', 'shape': (7, 11)}", elements), ErrorCode::io},
        {npy("{'descr': '<i8', 'descr': '<i8'}", elements), ErrorCode::io},
        {npy(std::string(200, '('), elements), ErrorCode::io},
        {npy("{'descr': '<i8", ""), ErrorCode::io},
        {npy("", elements), ErrorCode::io},
        {npy(right, elements.substr(1)), ErrorCode::io},
        {npy(right, elements).substr(0, 30), ErrorCode::io},
        {std::string("\x93NUMPY\x03\x00\xff\xff\xff\x7f", 12) + right, ErrorCode::io},
        {"\x93NUM", ErrorCode::io},
        {"", ErrorCode::io},
    };
    for (const auto& [file, code] : files) {
        for_each(a.array, [](std::int64_t& e, std::int64_t) { e = -1; });
        put(path, file);
        EXPECT_EQ(outcome_of([&] { a.load_from(path); }), code_of(code)) << file.substr(0, 90);
        const bool loaded = code == ErrorCode{};
        mpi_test::Comparisons comparisons;
        for_each(a.array, [&](std::int64_t& e, std::int64_t k) {
            comparisons.note(e == (loaded ? value_at(k) : -1), file.substr(0, 90));
        });
        comparisons.expect_all();
    }
}

TEST(Files, BeyondTheLimitOfOneProcessAreRefused) {
    const Folder folder;
    const NumberedArray a;
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = 100;
    setrlimit(RLIMIT_FSIZE, &small);
    const int outcome = outcome_of([&] { a.save_to(folder.path("a.npy")); });
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(outcome, code_of(ErrorCode::io));
    EXPECT_TRUE(folder.names().empty());
}

TEST(Files, LeftByAKilledProcessAreRemovedAndThoseOfALivingOneAreNot) {
    const Folder folder;
    const NumberedArray a;
    const std::string left = ".a.raw.0123456789ab.partial", held = ".a.raw.0123456789ac.partial";
    const std::set<std::string> others = {".b.raw.0123456789ab.partial", ".a.raw.0123.partial"};
    for (const std::string& name : {left, held, *others.begin(), *others.rbegin()})
        put(folder.path(name), "x");
    const int fd = ::open(folder.path(held).c_str(), O_RDONLY);
    ASSERT_EQ(flock(fd, LOCK_SH), 0);
    a.save_to(folder.path("a.raw"));
    std::set<std::string> expected = others;
    expected.insert({held, "a.raw"});
    EXPECT_EQ(folder.names(), expected);
    ::close(fd);
}

TEST(Files, DoNotWaitForEverForAProcessThatDoesNotCome) {
    const Folder folder;
    const int rank = mpi_test::world_rank(), last = mpi_test::world_size() - 1;
    MPI_Comm alone = MPI_COMM_NULL;  // nothing moves on it afterwards
    MPI_Comm_dup(MPI_COMM_WORLD, &alone);
    {
        const BlockCyclic rows(Point{7, 11}, "(block, *)", last + 1);
        const Array array(alone, rows, 8, of_numbers());
        set_default_timeout(0.2);
        int code = 0;
        try {
            if (rank != last) save(alone, folder.path("a.raw"), array.part());
        } catch (const Error& e) {
            code = static_cast<int>(e.code());
        }
        set_default_timeout({});
        if (rank != last) {
            EXPECT_TRUE(code == code_of(ErrorCode::timeout) ||
                        code == code_of(ErrorCode::peer_failed));
        }
        EXPECT_TRUE(folder.names().empty());
    }
    MPI_Comm_free(&alone);
}

TEST(Files, ReplacedWhileTheyAreOpenedAreNotReadInTwoVersions) {
    const Folder folder;
    const NumberedArray a;
    const std::string path = folder.path("a.npy"), other = folder.path("other.npy");
    a.save_to(path);
    a.save_to(other);
    if (mpi_test::world_rank() == 0) {
        injector.directory = folder.path();
        injector.failing_call = -1;
        // When this process reads the header.
        injector.before_read = [&] { std::filesystem::rename(other, path); };
        injector.armed = true;
    }
    EXPECT_EQ(outcome_of([&] { a.load_from(path); }), code_of(ErrorCode::io));
    injector.armed = false;
    injector.files.clear();
    EXPECT_EQ(folder.names(), std::set<std::string>{"a.npy"});
    EXPECT_EQ(outcome_of([&] { a.load_from(path); }), 0);
}

class FailingCalls : public ::testing::TestWithParam<bool> {
protected:
    int ran_clean_ = 0;
};

TEST_P(FailingCalls, AreToldToAllAndLeaveWhatWasThere) {
    const bool saves = GetParam();
    const Folder folder;
    const NumberedArray a;
    const std::string path = folder.path("a.npy");
    const int size = mpi_test::world_size(), rank = mpi_test::world_rank();
    a.save_to(path);
    const std::string old = bytes_of(path);
    injector.directory = folder.path();
    // On many processes not every call, but each process in turn.
    const int step = size < 3 ? 1 : size == 3 ? 2 : 3;
    int k = 0;
    for (bool failed = true; failed; k += step) {
        // A round for each row or so; elements are 1 higher than in the old file.
        const Array array(MPI_COMM_WORLD, a.rows, 8, of_numbers());
        for_each(array, [](std::int64_t& e, std::int64_t i) { e = value_at(i) + 1; });
        injector.failed = false;
        injector.failing_call = rank == k % size ? k / size : -1;
        injector.calls = 0;
        injector.error = k % 2 ? EIO : ENOSPC;
        injector.armed = true;
        const int outcome = outcome_of([&] {
            const FileOptions options{.max_bytes = 256, .overwrite = true};
            if (saves)
                save(MPI_COMM_WORLD, path, array.part(), options);
            else
                load(MPI_COMM_WORLD, path, array.part(), options);
        });
        injector.armed = false;
        injector.files.clear();
        const bool failed_here = !mpi_test::holds_everywhere(!injector.failed);
        EXPECT_EQ(outcome, failed_here ? code_of(ErrorCode::io) : 0) << "at call " << k;
        EXPECT_EQ(folder.names(), std::set<std::string>{"a.npy"}) << "at call " << k;
        if (failed_here || !saves) {
            EXPECT_EQ(bytes_of(path), old) << "at call " << k;
        }
        if (!failed_here && !saves)
            for_each(array, [](std::int64_t& e, std::int64_t i) { ASSERT_EQ(e, value_at(i)); });
        if (!failed_here && saves) {
            EXPECT_TRUE(bytes_of(path) != old) << "at call " << k;
            put(path, old);
        }
        // They do not make equally many calls: done when none of a whole row failed.
        ran_clean_ = failed_here ? 0 : ran_clean_ + 1;
        failed = ran_clean_ < size;
        ASSERT_TRUE(mpi_test::holds_everywhere(!HasFailure())) << "at call " << k;
    }
    EXPECT_GT(k, 4);
}

INSTANTIATE_TEST_SUITE_P(Of, FailingCalls, ::testing::Bool(),
                         [](const auto& saves) { return saves.param ? "Saving" : "Loading"; });

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
