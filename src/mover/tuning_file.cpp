// SPDX-License-Identifier: BSD-3-Clause
// The tuning file: measured choices kept for later programs.
//
// A text file: a line that says what it is, then a line per key: key, names, checksum. It holds no
// more than could be lost: who writes at the same time loses what the other one added.
#include "tuning_file.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <locale>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "geometry/word_digest.hpp"
#include "io/whole_file.hpp"

namespace datamover {
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
    std::string words(std::string_view(first_words).size(),
                      '\0');  // the first line may have no end
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
#ifdef __APPLE__
    const char* folder = "/Library/Caches";
#else
    const char* folder = "/.cache";
#endif
    std::error_code failed;
    return fs::is_directory(home, failed) ? home + folder + "/datamover/tuning" : "";
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

}  // namespace datamover
