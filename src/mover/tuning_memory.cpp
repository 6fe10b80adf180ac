// SPDX-License-Identifier: BSD-3-Clause
// What was measured by this program and earlier ones: transport choices and rates, and their file.
#include "tuning.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <locale>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binding.hpp"
#include "datamover/advanced/transport_rates.hpp"
#include "datamover/version.h"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "io/whole_file.hpp"
#include "mpi/environment.hpp"

namespace datamover {
namespace {

constexpr std::size_t most_kept = 4096;
/// What begins here begins with a cache line. Where within a line an array begins is another chance
/// in each run of a program whose arrays are NumPy's: only whether it begins with one is told
/// apart.
constexpr std::uintptr_t array_line_bytes = 64;

using geometry::WordDigest;

void put(WordDigest& digest, const ArrayPart& part) {
    // A process without elements learns their type from the others.
    if (part.memory.blocks.empty()) return;
    digest.put(part.elem_bytes);
    digest.put(static_cast<std::int64_t>(part.type));
    digest.put(part.allocation && part.allocation->segment);
    digest.put(reinterpret_cast<std::uintptr_t>(part.base) % array_line_bytes == 0);
    for (const BlockMemory& block : part.memory.blocks) {
        digest.put(block.block);
        digest.put(block.offset_bytes);
        for (int d = 0; d < block.valid.dims(); ++d) {
            digest.put(block.strides_bytes[d]);
            digest.put(block.valid.extent(d));
        }
    }
}

struct Memory {
    std::mutex mutex;
    std::map<std::int64_t, std::string> fastest;
};

/// Never destroyed.
Memory& tuning_memory() {
    static auto* memory = new Memory;
    return *memory;
}

/// Of the machine and the software that moves.
std::int64_t system_digest() {
    static const std::int64_t made = [] {
        WordDigest digest;
        digest.put(geometry::text_digest(mpi::library_version()));
        digest.put(geometry::text_digest(DATAMOVER_VERSION));
        digest.put(mpi::count(mpi::usable_processors()));
        return digest.value();
    }();
    return made;
}

}  // namespace

std::int64_t tuning_key(const mpi::ProcessGroup& group, const Moves& moves,
                        const MoverOptions& options) {
    WordDigest digest;
    digest.put(system_digest());
    digest.put(geometry::text_digest(transport::transport_names()));
    digest.put(digest_of(moves));
    digest.put(static_cast<std::int64_t>(options.op));
    digest.put(options.alpha != 1.0 || options.conjugate);
    digest.put(options.max_bytes);
    digest.put(group.size());
    digest.put(group.rank());
    digest.put(group.node().peers_readable);
    for (const int rank : group.node().ranks) digest.put(rank);
    for (const Motion& motion : moves.motions)
        for (const Side side : both_sides) put(digest, motion.array[side]);
    return digest.value();
}

std::string remembered_transports(const mpi::ProcessGroup& group, const Moves& moves,
                                  const MoverOptions& options) {
    Memory& memory = tuning_memory();
    const std::lock_guard lock(memory.mutex);
    if (memory.fastest.empty()) return {};
    const auto found = memory.fastest.find(tuning_key(group, moves, options));
    return found == memory.fastest.end() ? std::string() : found->second;
}

void remember_transports(const mpi::ProcessGroup& group, const Moves& moves,
                         const MoverOptions& options, const std::string& transports) {
    Memory& memory = tuning_memory();
    const std::lock_guard lock(memory.mutex);
    if (memory.fastest.size() >= most_kept) memory.fastest.clear();
    memory.fastest[tuning_key(group, moves, options)] = transports;
}

// The tuning file: measured choices kept for later programs.
//
// A text file: a line that says what it is, then a line per key: key, names, checksum. It holds no
// more than could be lost: who writes at the same time loses what the other one added.

namespace {

namespace fs = std::filesystem;

constexpr const char* first_words = "datamover tuning ";
constexpr const char* first_line = "datamover tuning 1";
constexpr std::size_t most_lines = 1000;
constexpr std::size_t longest_line = 300;
constexpr std::uintmax_t most_bytes = most_lines * longest_line;

using TunedEntry = std::pair<std::int64_t, std::string>;

std::int64_t checksum(const TunedEntry& entry) {
    geometry::WordDigest digest;
    digest.put(entry.first);
    for (const char c : entry.second) digest.put(c);
    return digest.value();
}

std::vector<TunedEntry> entries_of(const std::string& path) {
    std::vector<TunedEntry> entries;
    if (!fs::is_regular_file(path) || fs::file_size(path) > most_bytes) return entries;
    std::ifstream file(path);
    file.imbue(std::locale::classic());
    std::string line;
    if (!std::getline(file, line) || line != first_line) return entries;
    while (entries.size() < most_lines && std::getline(file, line)) {
        std::istringstream words(line);
        words.imbue(std::locale::classic());
        TunedEntry entry;
        std::int64_t sum = -1;
        if (words >> entry.first >> entry.second >> sum && sum == checksum(entry))
            entries.push_back(std::move(entry));
    }
    return entries;
}

/// Whether a path is free, or has a file of this kind, of any version. What else may be there is
/// the user's.
bool may_be_replaced(const std::string& path) {
    if (!fs::exists(path)) return true;
    if (!fs::is_regular_file(path)) return false;
    std::ifstream file(path);
    // The first line may have no end.
    std::string words(std::string_view(first_words).size(), '\0');
    file.read(words.data(), std::ssize(words));
    return fs::file_size(path) == 0 || (file && words == first_words);
}

/// Replaces the file that a symbolic link leads to; the link and the file's permissions stay. The
/// fresh file has a name that nobody foresees: in a directory that others may write to, nothing of
/// theirs is followed or overwritten.
void replace_file(const std::string& named, const std::vector<TunedEntry>& entries) {
    if (!may_be_replaced(named)) return;
    const bool is_there = fs::exists(named);
    const std::string path = is_there ? fs::canonical(named).string() : named;
    const fs::path folder = fs::path(path).parent_path();
    if (!folder.empty()) fs::create_directories(folder);
    std::string text = concat(first_line, '\n');
    for (const TunedEntry& entry : entries)
        text += concat(entry.first, ' ', entry.second, ' ', checksum(entry), '\n');
    io::NewFile fresh(path, io::hidden_name(path, io::drawn_token()), std::ssize(text), true);
    if (is_there) fresh.file().set_permissions(fs::status(path).permissions());
    fresh.file().write(0, std::as_bytes(std::span(text)));
    fresh.place();
}

std::string environment(const char* name) {
    const char* text = std::getenv(name);
    return text ? text : "";
}

}  // namespace

std::string tuning_file_path() {
    if (std::getenv("DATAMOVER_TUNING_FILE")) return environment("DATAMOVER_TUNING_FILE");
    const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
    // As it is agreed, what is no absolute path is none.
    if (cache.starts_with('/')) return cache + "/datamover/tuning";
    std::error_code failed;
    return fs::is_directory(home, failed) ? home + "/.cache/datamover/tuning" : "";
}

std::string find_in_tuning_file(const std::string& path, std::int64_t key) noexcept {
    try {
        for (const TunedEntry& entry : entries_of(path))
            if (entry.first == key) return entry.second;
    } catch (...) {
        // A file that cannot be read tells nothing.
    }
    return {};
}

void add_to_tuning_file(const std::string& path, std::int64_t key,
                        const std::string& transports) noexcept {
    if (path.empty()) return;
    try {
        std::vector<TunedEntry> entries = entries_of(path);
        std::erase_if(entries, [&](const TunedEntry& entry) { return entry.first == key; });
        if (entries.size() >= most_lines) entries.erase(entries.begin());
        entries.emplace_back(key, transports);
        replace_file(path, entries);
    } catch (...) {
        // Later programs measure for themselves.
    }
}

// Cost model for moving elements to another process of the node.
//
// What was measured stands in the file of what was tuned, for the processor that it was measured
// on.

namespace {

constexpr double rate_line_bytes = 64;
constexpr std::size_t rate_count = sizeof(TransportRates) / sizeof(double);
using RateNumbers = std::array<double, rate_count>;

bool make_sense(const TransportRates& rates) {
    return std::ranges::all_of(std::bit_cast<RateNumbers>(rates),
                               [](double rate) { return rate >= 0 && std::isfinite(rate); });
}

/// The key of this machine's rates: a digest of how the system describes its first processor.
std::int64_t rates_key() {
    std::ifstream file("/proc/cpuinfo");
    std::string words;
    for (std::string line; std::getline(file, line) && !line.empty();)
        for (const char* word : {"model name", "CPU implementer", "CPU part"})
            if (line.starts_with(word)) words += line;
    return geometry::text_digest(words + "transport rates 1");
}

/// The same in every locale.
std::string as_text(const TransportRates& rates) {
    std::string text;
    for (const double rate : std::bit_cast<RateNumbers>(rates)) {
        std::array<char, 32> digits;
        const auto written = std::to_chars(digits.begin(), digits.end(), rate);
        text += (text.empty() ? "" : ",") + std::string(digits.begin(), written.ptr);
    }
    return text;
}

/// Nothing where a text holds something else.
std::optional<TransportRates> from_text(std::string text) {
    std::ranges::replace(text, ',', ' ');
    std::istringstream words(text);
    words.imbue(std::locale::classic());
    RateNumbers numbers{};
    for (double& number : numbers) words >> number;
    const auto rates = std::bit_cast<TransportRates>(numbers);
    if (!words || !(words >> std::ws).eof() || !make_sense(rates)) return {};
    return rates;
}

struct SharedRates {
    std::mutex mutex;
    TransportRates rates =
        from_text(find_in_tuning_file(tuning_file_path(), rates_key())).value_or(TransportRates{});
};

SharedRates& shared_rates() {
    static SharedRates shared;
    return shared;
}

double runs(std::int64_t bytes, std::int64_t run_bytes) {
    return static_cast<double>(bytes) / static_cast<double>(run_bytes);
}

}  // namespace

double TransportRates::shared_ns(std::int64_t bytes) const {
    return shared_message + static_cast<double>(bytes) / rate_line_bytes * shared_line;
}

double TransportRates::staged_ns(std::int64_t bytes) const {
    return staged_message + static_cast<double>(bytes) / rate_line_bytes * staged_line;
}

double TransportRates::read_ns(std::int64_t bytes, std::int64_t run_bytes) const {
    return runs(bytes, run_bytes) * read_run + static_cast<double>(bytes) * read_byte;
}

double TransportRates::slots_ns(std::int64_t bytes, std::int64_t run_bytes) const {
    return runs(bytes, run_bytes) * slot_run + static_cast<double>(bytes) * slot_byte;
}

TransportRates transport_rates() {
    const std::lock_guard lock(shared_rates().mutex);
    return shared_rates().rates;
}

void set_transport_rates(const TransportRates& rates) {
    if (!make_sense(rates))
        throw make_error(ErrorCode::invalid_argument,
                         "rates of transports must be finite and not negative: ", as_text(rates));
    const std::lock_guard lock(shared_rates().mutex);
    shared_rates().rates = rates;
}

void keep_transport_rates(const TransportRates& rates) {
    set_transport_rates(rates);
    add_to_tuning_file(tuning_file_path(), rates_key(), as_text(rates));
}

}  // namespace datamover
