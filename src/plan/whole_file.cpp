// SPDX-License-Identifier: BSD-3-Clause
// How does a file appear under its name only when all of it is there?
#include "whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::plan {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* what, int reason) {
    throw make_error(ErrorCode::io, path, " cannot be ", what, ": ",
                     std::generic_category().message(reason));
}

/// An open file, closed at the end whatever happens.
class OpenFile {
public:
    OpenFile(const std::string& path, int flags) : fd_(::open(path.c_str(), flags, 0666)) {}
    ~OpenFile() {
        if (fd_ >= 0) ::close(fd_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    bool is_open() const { return fd_ >= 0; }
    int fd() const { return fd_; }
    bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

    /// Whether all bytes were written and reached the disk; else errno says why not.
    bool write(std::span<const std::uint8_t> bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(n));
        }
        return ::fsync(fd_) == 0 && close();
    }

private:
    int fd_;
};

std::string random_suffix() {
    std::random_device random;
    char text[18];
    std::snprintf(text, sizeof text, ".%08x%08x", random(), random());
    return text;
}

/// A rename is on the disk when its directory is. Not all file systems can be asked for that.
void sync_directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const OpenFile opened(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened.is_open() && ::fsync(opened.fd()) != 0 && errno != EINVAL && errno != ENOTSUP)
        refuse(path, "written", errno);
}

}  // namespace

void write_whole_file(const std::string& path, std::span<const std::uint8_t> bytes) {
    const std::string unfinished = path + random_suffix();
    OpenFile file(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC);
    if (!file.is_open()) refuse(path, "written", errno);
    if (!file.write(bytes) || ::rename(unfinished.c_str(), path.c_str()) != 0) {
        const int reason = errno;
        ::unlink(unfinished.c_str());
        refuse(path, "written", reason);
    }
    sync_directory_of(path);
}

std::vector<std::uint8_t> read_whole_file(const std::string& path) {
    // Without waiting, so that a pipe is refused too.
    const OpenFile file(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat status{};
    if (!file.is_open() || ::fstat(file.fd(), &status) != 0) refuse(path, "read", errno);
    if (!S_ISREG(status.st_mode))
        throw make_error(ErrorCode::io, path, " cannot be read: it is no regular file");
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
    for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t n = ::read(file.fd(), bytes.data() + at, bytes.size() - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) refuse(path, "read", errno);
        if (n == 0) bytes.resize(at);
        at += static_cast<std::size_t>(n);
    }
    return bytes;
}

}  // namespace datamover::plan
