// SPDX-License-Identifier: BSD-3-Clause
// Tokens: random ones, those of users, and those in files.
#include "stream/wire/token.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "geometry/make_error.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {
namespace {

constexpr std::size_t least_token_characters = 16, most_token_characters = 256;
constexpr int token_bytes = 24, partial_name_bytes = 8;
constexpr mode_t others = 0077;

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

/// Whether only this user can read and write what was opened, of that type.
bool is_private(const Descriptor& file, mode_t type) {
    struct stat found{};
    return file.get() >= 0 && ::fstat(file.get(), &found) == 0 &&
           (found.st_mode & S_IFMT) == type && found.st_uid == ::geteuid() &&
           (found.st_mode & others) == 0;
}

/// The descriptor of a directory, no symbolic link.
int open_directory(const std::string& path) {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

std::string file_name(std::string_view address) {
    constexpr std::string_view scheme = "tcp://";
    if (address.starts_with(scheme)) address.remove_prefix(scheme.size());
    std::string name = concat("datamover-stream-", address);
    std::ranges::replace(name, '/', '_');
    return name;
}

/// Writes a file that is there whole or not at all; false with errno.
bool write_file(const Descriptor& directory, const std::string& name, const std::string& text) {
    const std::string partial = "." + name + "." + random_digits(partial_name_bytes);
    const Descriptor file(::openat(directory.get(), partial.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return false;
    errno = ENOSPC;  // if only a part is written
    const bool is_written =
        ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (is_written &&
        ::renameat(directory.get(), partial.c_str(), directory.get(), name.c_str()) == 0)
        return true;
    const int error = errno;
    ::unlinkat(directory.get(), partial.c_str(), 0);
    errno = error;
    return false;
}

std::string read_token(const Descriptor& file) {
    std::array<char, most_token_characters + 1> room;
    const ssize_t bytes = ::read(file.get(), room.data(), room.size());
    if (bytes <= 0) return "";
    std::string token(room.data(), static_cast<std::size_t>(bytes));
    return token.size() <= most_token_characters && is_printable(token) ? token : "";
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned char differs = 0;
    for (std::size_t n = 0; n < a.size(); ++n) differs |= static_cast<unsigned char>(a[n] ^ b[n]);
    return differs == 0;
}

std::string random_digits(int bytes) {
    std::vector<unsigned char> random(static_cast<std::size_t>(bytes));
    // Up to 256 bytes are given whole.
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        throw Error(ErrorCode::io, "cannot read random numbers from the system");
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : random) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

std::string new_token() {
    return random_digits(token_bytes);
}

void check_token(std::string_view token) {
    if (token.size() < least_token_characters || token.size() > most_token_characters)
        throw make_error(ErrorCode::invalid_argument, "the token has ", token.size(),
                         " characters; it must have ", least_token_characters, " to ",
                         most_token_characters);
    if (!is_printable(token))
        throw Error(ErrorCode::invalid_argument, "the token must be printable ASCII text");
}

std::optional<std::string> given_token(const std::optional<std::string>& option) {
    std::optional<std::string> token = option;
    if (!token) {
        const char* const found = std::getenv("DATAMOVER_STREAM_TOKEN");
        if (found == nullptr || *found == '\0') return {};
        token = found;
    }
    if (token->size() > most_token_characters || !is_printable(*token))
        throw make_error(ErrorCode::invalid_argument, option ? "token" : "DATAMOVER_STREAM_TOKEN",
                         " must be printable ASCII text of at most ", most_token_characters,
                         " characters");
    return token;
}

std::vector<std::string> runtime_directories() {
    std::vector<std::string> found;
    const char* const given = std::getenv("XDG_RUNTIME_DIR");
    if (given != nullptr && *given == '/') found.emplace_back(given);
    found.push_back(concat("/tmp/datamover-", ::geteuid()));
    return found;
}

TokenFile::TokenFile(const std::string& address, const std::string& token,
                     const std::vector<std::string>& directories)
    : process_(::getpid()) {
    std::string why;
    for (const std::string& path : directories) {
        if (&path == &directories.back()) ::mkdir(path.c_str(), 0700);
        const Descriptor directory(open_directory(path));
        if (!is_private(directory, S_IFDIR)) {
            why = path + " is not a directory that only this user can access";
            continue;
        }
        if (write_file(directory, file_name(address), token)) {
            path_ = path + "/" + file_name(address);
            return;
        }
        why = path + ": " + std::strerror(errno);
    }
    throw make_error(
        ErrorCode::io, "cannot store the token of the stream: ", why,
        "; set XDG_RUNTIME_DIR to a directory of yours with mode 0700, or pass token=");
}

TokenFile::~TokenFile() {
    if (process_ == ::getpid()) ::unlink(path_.c_str());
}

std::string stored_token(const std::string& address, const std::vector<std::string>& directories) {
    for (const std::string& path : directories) {
        const Descriptor directory(open_directory(path));
        if (!is_private(directory, S_IFDIR)) continue;
        const Descriptor file(::openat(directory.get(), file_name(address).c_str(),
                                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!is_private(file, S_IFREG)) continue;
        if (const std::string token = read_token(file); !token.empty()) return token;
    }
    return "";
}

}  // namespace datamover::stream
