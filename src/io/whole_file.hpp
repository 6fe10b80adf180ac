// SPDX-License-Identifier: BSD-3-Clause
// Whole files: read and write at any position; a new file appears under its name only when
// complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "stream/wire/connection.hpp"

namespace datamover::io {

/// An open file, read and written at any place. Closed at the end whatever happens.
class FlatFile {
public:
    FlatFile() = default;
    /// A regular file, to be read. Throws io.
    static FlatFile to_read(const std::string& path);
    /// One that another process made. Held against removal while it is open. Throws io.
    static FlatFile to_write(const std::string& path);

    bool is_open() const { return fd() >= 0; }
    /// Throws io.
    std::int64_t size_bytes() const;
    /// Whether another file has the name by now, or none.
    bool is_replaced() const;
    /// Throws io, also where the file ends before.
    void read(std::int64_t position, std::span<std::byte> bytes) const;
    /// Throws io.
    void write(std::int64_t position, std::span<const std::byte> bytes) const;
    /// Throws io.
    void set_permissions(std::filesystem::perms permissions) const;
    /// Brings what was written to the disk. Throws io.
    void sync() const;

private:
    friend class NewFile;
    /// Opens `opened`; errors say `path`.
    FlatFile(std::string path, const std::string& opened, int flags);
    void reserve(std::int64_t size_bytes) const;
    int fd() const { return descriptor_.get(); }
    std::string path_;
    stream::Descriptor descriptor_{-1};
};

/// 48 bits that nobody can foresee.
std::int64_t drawn_token();

/// The name beside `path` under which it is written, by a token that no other has.
std::string hidden_name(const std::string& path, std::int64_t token);

/// A file that is written under a hidden name, and removed unless it is placed.
class NewFile {
public:
    /// Makes it, so large at once, and removes what killed processes left beside `path`. Throws io:
    /// the file is there and not to be replaced, the disk has no room, ...
    NewFile(std::string path, std::string hidden, std::int64_t size_bytes, bool overwrite);
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile();

    const FlatFile& file() const { return file_; }
    /// Gives it its name. Throws io.
    void place();

private:
    std::string path_, hidden_;
    FlatFile file_;
    bool overwrite_ = false, placed_ = false;
};

/// Writes the bytes to a new file, brings them to the disk and places it: under `path` stands what
/// stood there before, or all of the bytes, also after a crash. A symbolic link at `path` is
/// replaced, not followed. Throws io, and leaves nothing behind then.
void write_whole_file(const std::string& path, std::span<const std::uint8_t> bytes);

/// All bytes of a regular file. Throws io, also for anything else than a regular file.
std::vector<std::uint8_t> read_whole_file(const std::string& path);

}  // namespace datamover::io
