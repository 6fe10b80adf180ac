// SPDX-License-Identifier: BSD-3-Clause
// Creation of memory that another process can read and that cannot shrink while it does; allocation
// of private memory, and its return to a pool.
#include "stream/wire/message_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

/// Reserves the pages, so that none is missing at the first touch, and fixes the size for ever.
bool reserve_and_seal(int file, std::size_t bytes) {
    return ::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0 &&
           ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

std::atomic<std::uint64_t> segments_made{0};

constexpr std::size_t large_page_bytes = std::size_t{2} << 20;
/// With less, what a last page has too much would be a large part of it.
constexpr std::size_t least_bytes = 2 * large_page_bytes;

/// Null where there is no more.
std::byte* private_memory(std::size_t bytes) {
    if (bytes < least_bytes)
        return static_cast<std::byte*>(std::malloc(std::max<std::size_t>(bytes, 1)));
    if (bytes > SIZE_MAX - large_page_bytes) return nullptr;
    const std::size_t pages = (bytes + large_page_bytes - 1) / large_page_bytes;
    void* const memory = std::aligned_alloc(large_page_bytes, pages * large_page_bytes);
    // Where the system has none, small pages do.
    if (memory != nullptr) ::madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
}

constexpr int seals_needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void refuse() {
    throw make_error(ErrorCode::io, "cannot map a shared memory segment: ", std::strerror(errno));
}

}  // namespace

Memory::Memory(std::size_t bytes)
    : file_(-1), bytes_(private_memory(bytes), bytes), packed_(bytes) {
    if (bytes_.data() == nullptr)
        throw make_error(ErrorCode::no_memory, "out of memory for a message of ", bytes, " bytes");
}

std::unique_ptr<Memory> Memory::make_segment(std::size_t bytes) {
    Descriptor file(::memfd_create("datamover", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file.get() < 0 || !may_keep(file.get()) || !reserve_and_seal(file.get(), bytes))
        return nullptr;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return nullptr;
    return std::unique_ptr<Memory>(
        new Memory(std::move(file), {static_cast<std::byte*>(memory), bytes}, segments_made++));
}

Memory::~Memory() {
    if (is_segment())
        ::munmap(bytes_.data(), bytes_.size());
    else
        std::free(bytes_.data());
}

void Memory::give_back() const {
    if (!std::exchange(has_memory_, false)) return;
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(bytes_.size()));
}

bool Memory::reserve() const {
    if (!has_memory_)
        has_memory_ = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes_.size())) == 0;
    return has_memory_;
}

int Memory::open_for_reading() const {
    const std::string name = concat("/proc/self/fd/", file_.get());
    const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        throw make_error(ErrorCode::io,
                         "cannot hand over a shared memory segment: ", std::strerror(errno));
    return file;
}

SegmentView view_of_segment(int file) {
    const int seals = ::fcntl(file, F_GET_SEALS);
    if (seals < 0) refuse();
    if ((seals & seals_needed) != seals_needed)
        throw Error(ErrorCode::io, "the shared memory segment is not sealed against shrinking");
    struct stat found{};
    if (::fstat(file, &found) != 0) refuse();
    const auto bytes = static_cast<std::size_t>(found.st_size);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) refuse();
    const auto unmap = [memory, bytes](const auto* view) {
        ::munmap(memory, bytes);
        delete view;
    };
    return {new std::span(static_cast<const std::byte*>(memory), bytes), unmap};
}

MemoryPool::MemoryPool(std::size_t most_unused) : most_unused_(most_unused), process_(::getpid()) {}

MemoryPtr MemoryPool::take(std::size_t bytes) {
    Owned memory;
    bool wants_segment = false;
    {
        const std::lock_guard guard(lock_);
        keeps_memory_ = true;
        memory = take_unused(bytes);
        wants_segment = takes_segments(bytes);
    }
    if (memory == nullptr) {
        // To reserve pages takes long: those who give memory back do not wait for it.
        if (wants_segment) memory = Memory::make_segment(bytes);
        if (memory == nullptr) memory = std::make_unique<Memory>(bytes);
        const std::lock_guard guard(lock_);
        segments_ += memory->is_segment();
        held_bytes_ += bytes;
    }
    try {
        const auto give_back = [kept = weak_from_this()](const Memory* at) noexcept {
            Owned back(at);
            if (const auto pool = kept.lock()) pool->give_back(std::move(back));
        };
        return {memory.release(), give_back};
    } catch (const std::bad_alloc&) {  // the memory was given back
        throw Error(ErrorCode::no_memory, "out of memory while receiving a step");
    }
}

void MemoryPool::share() {
    const std::lock_guard guard(lock_);
    shares_memory_ = true;
}

void MemoryPool::free_unused() {
    const std::lock_guard guard(lock_);
    keeps_memory_ = false;
    for (auto& [bytes, same] : unused_)
        std::erase_if(same, [this](const Owned& memory) { return !free(*memory); });
}

void MemoryPool::end() {
    const std::lock_guard guard(lock_);
    has_ended_ = true;
    for (const auto& [bytes, same] : unused_)
        for (const Owned& memory : same) held_bytes_ -= memory->has_memory() ? bytes : 0;
    // Not given back page by page: a process that still reads a segment would find it empty.
    unused_.clear();
}

std::uint64_t MemoryPool::bytes_held() const {
    const std::lock_guard guard(lock_);
    return held_bytes_;
}

bool MemoryPool::takes_segments(std::size_t bytes) const {
    return shares_memory_ && !has_ended_ && bytes >= Memory::least_shared_bytes &&
           segments_ < Memory::max_segments;
}

MemoryPool::Owned MemoryPool::take_unused(std::size_t bytes) {
    const auto found = unused_.find(bytes);
    if (found == unused_.end()) return nullptr;
    std::vector<Owned>& same = found->second;
    // Private memory gives way to segments as soon as the receiver can read those.
    if (takes_segments(bytes))
        std::erase_if(same, [this](const Owned& m) { return !m->is_segment() && !free(*m); });
    if (same.empty()) return nullptr;
    // What came back last: such as has no memory was there before.
    if (!same.back()->has_memory()) {
        if (!same.back()->reserve()) return nullptr;
        held_bytes_ += bytes;
    }
    Owned memory = std::move(same.back());
    same.pop_back();
    return memory;
}

bool MemoryPool::free(const Memory& memory) {
    if (memory.has_memory()) held_bytes_ -= memory.bytes().size();
    if (!memory.is_segment()) return false;
    memory.give_back();
    return true;
}

void MemoryPool::give_back(Owned memory) noexcept {
    std::unique_lock guard(lock_, std::try_to_lock);
    // In a forked child the lock may be a thread's that is not there, for ever; and the memory of a
    // segment is the parent's, too.
    if ((!guard || memory->is_segment()) && ::getpid() != process_) return;
    if (!guard) guard.lock();
    const std::size_t bytes = memory->bytes().size();
    const auto drop = [&] { held_bytes_ -= memory->has_memory() ? bytes : 0; };
    try {
        auto& same = unused_[bytes];
        if (has_ended_ || same.size() >= most_unused_) return drop();
        if (keeps_memory_ || free(*memory)) same.push_back(std::move(memory));
    } catch (const std::bad_alloc&) {  // it goes back to the system
        drop();
    }
}

}  // namespace datamover::stream
