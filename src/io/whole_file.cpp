// SPDX-License-Identifier: BSD-3-Clause
// Whole files: read and write at any position; a new file appears under its name only when
// complete.
#include "whole_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const char* what, int reason) {
    throw make_error(ErrorCode::io, path, " cannot be ", what, ": ",
                     std::generic_category().message(reason));
}

std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool is_no_space(int reason) {
    return reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
}

[[noreturn]] void refuse_for_space(const std::string& path, std::int64_t size_bytes, int reason) {
    std::string text = concat(path, " cannot be written: ", std::generic_category().message(reason),
                              "; it needs ", size_bytes, " bytes");
    std::error_code failed;
    const fs::space_info found = fs::space(directory_of(path), failed);
    if (!failed) text += concat(", ", found.available, " are free");
    throw Error(ErrorCode::io, text);
}

/// A file beyond this limit would end the program by a signal.
void check_size_limit(const std::string& path, std::int64_t size_bytes) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        static_cast<std::uint64_t>(size_bytes) > limit.rlim_cur)
        throw make_error(ErrorCode::io, path, " would have ", size_bytes, " bytes; the limit is ",
                         limit.rlim_cur, " (ulimit -f)");
}

/// Whether a descriptor is still that of the file of this name.
bool is_still(int fd, const std::string& path) {
    struct stat here{}, there{};
    return ::fstat(fd, &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/// Whether a name is a hidden one for `path`: ".name.0123456789ab.partial".
bool is_hidden_name(const std::string& name, const std::string& path) {
    const std::string begin = "." + name_of(path) + ".", end = ".partial";
    constexpr std::size_t digits = 12;
    return name.size() == begin.size() + digits + end.size() && name.starts_with(begin) &&
           name.ends_with(end) &&
           name.find_first_not_of("0123456789abcdef", begin.size()) == begin.size() + digits;
}

/// Removes a hidden file unless somebody holds it.
void remove_if_left(const std::string& path) {
    const stream::Descriptor opened(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status{};
    if (::fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0 && is_still(opened.get(), path))
        ::unlink(path.c_str());
}

void remove_leftovers(const std::string& path) {
    std::error_code failed;  // then it is at its end
    for (fs::directory_iterator at(directory_of(path), failed), end; at != end;
         at.increment(failed))
        if (is_hidden_name(at->path().filename(), path)) remove_if_left(at->path());
}

void check_place(const std::string& path, bool overwrite) {
    std::error_code failed;
    const fs::file_type type = fs::symlink_status(path, failed).type();
    if (type == fs::file_type::not_found) return;
    if (failed) refuse(path, "written", failed.value());
    if (!overwrite)
        throw make_error(ErrorCode::io, path, " exists; the option overwrite replaces it");
    // What a link leads to stays: the link is replaced.
    if (type != fs::file_type::regular && type != fs::file_type::symlink)
        throw make_error(ErrorCode::io, path, " is no regular file: it is not replaced");
}

/// Without replacing what came meanwhile; false with errno set.
bool rename_to_new(const std::string& from, const std::string& to) {
#ifdef RENAME_NOREPLACE
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return false;
#endif
    std::error_code unknown;
    if (!fs::exists(fs::symlink_status(to, unknown)))
        return ::rename(from.c_str(), to.c_str()) == 0;
    errno = EEXIST;
    return false;
}

/// A rename is on the disk when its directory is. Not all file systems can be asked for that.
void sync_directory_of(const std::string& path) {
    const stream::Descriptor opened(
        ::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const bool failed = opened.get() >= 0 && ::fsync(opened.get()) != 0;
    if (failed && errno != EINVAL && errno != ENOTSUP) refuse(path, "synced", errno);
}

}  // namespace

FlatFile::FlatFile(std::string path, const std::string& opened, int flags)
    : path_(std::move(path)), descriptor_(::open(opened.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd() < 0) refuse(path_, (flags & O_ACCMODE) == O_RDONLY ? "read" : "written", errno);
}

FlatFile FlatFile::to_read(const std::string& path) {
    // Without waiting, so that a pipe is refused too.
    FlatFile file(path, path, O_RDONLY | O_NONBLOCK);
    struct stat status{};
    if (::fstat(file.fd(), &status) != 0) refuse(path, "read", errno);
    if (!S_ISREG(status.st_mode))
        throw make_error(ErrorCode::io, path, " cannot be read: it is no regular file");
    return file;
}

FlatFile FlatFile::to_write(const std::string& path) {
    FlatFile file(path, path, O_WRONLY | O_NOFOLLOW);
    // Where files have no locks, nobody can tell, and nobody removes it.
    ::flock(file.fd(), LOCK_SH | LOCK_NB);
    return file;
}

std::int64_t FlatFile::size_bytes() const {
    struct stat status{};
    if (::fstat(fd(), &status) != 0) refuse(path_, "read", errno);
    return status.st_size;
}

bool FlatFile::is_replaced() const {
    return !is_still(fd(), path_);
}

void FlatFile::read(std::int64_t position, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t n = ::pread(fd(), bytes.data(), bytes.size(), position);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) refuse(path_, "read", errno);
        if (n == 0)
            throw make_error(ErrorCode::io, path_, " ends at byte ", position,
                             ": it became shorter meanwhile");
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        position += n;
    }
}

void FlatFile::write(std::int64_t position, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t n = ::pwrite(fd(), bytes.data(), bytes.size(), position);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && is_no_space(errno)) refuse_for_space(path_, size_bytes(), errno);
        if (n < 0) refuse(path_, "written", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        position += n;
    }
}

void FlatFile::set_permissions(std::filesystem::perms permissions) const {
    if (::fchmod(fd(), static_cast<mode_t>(permissions)) != 0) refuse(path_, "written", errno);
}

void FlatFile::sync() const {
    if (::fsync(fd()) != 0) refuse(path_, "brought to the disk", errno);
}

void FlatFile::reserve(std::int64_t size_bytes) const {
    int reason = 0;
    while (::fallocate(fd(), 0, 0, size_bytes) != 0 && (reason = errno) == EINTR) reason = 0;
    if (reason == EOPNOTSUPP || reason == ENOSYS)
        reason = ::ftruncate(fd(), size_bytes) == 0 ? 0 : errno;
    if (is_no_space(reason)) refuse_for_space(path_, size_bytes, reason);
    if (reason != 0) refuse(path_, "written", reason);
}

std::int64_t drawn_token() {
    std::random_device random;
    return (std::int64_t{random()} << 16 ^ random()) & 0xffffffffffff;
}

std::string hidden_name(const std::string& path, std::int64_t token) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%012llx", static_cast<unsigned long long>(token));
    const std::string directory = path.substr(0, path.size() - name_of(path).size());
    return directory + "." + name_of(path) + "." + digits + ".partial";
}

NewFile::NewFile(std::string path, std::string hidden, std::int64_t size_bytes, bool overwrite)
    : path_(std::move(path)), hidden_(std::move(hidden)), overwrite_(overwrite) {
    if (name_of(path_).empty())
        throw make_error(ErrorCode::invalid_argument, "'", path_, "' names no file");
    check_place(path_, overwrite_);
    check_size_limit(path_, size_bytes);
    remove_leftovers(path_);
    try {
        do {  // another save may take it for a leftover before it is held
            file_ = FlatFile(path_, hidden_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
            ::flock(file_.fd(), LOCK_SH | LOCK_NB);
        } while (!is_still(file_.fd(), hidden_));
        if (size_bytes > 0) file_.reserve(size_bytes);
    } catch (const Error& e) {
        if (file_.is_open()) ::unlink(hidden_.c_str());
        throw;
    }
}

NewFile::~NewFile() {
    if (!placed_) ::unlink(hidden_.c_str());
}

void NewFile::place() {
    const bool done =
        overwrite_ ? ::rename(hidden_.c_str(), path_.c_str()) == 0 : rename_to_new(hidden_, path_);
    if (!done && errno == EEXIST)
        throw make_error(ErrorCode::io, path_,
                         " came into being meanwhile; the option overwrite replaces it");
    if (!done) refuse(path_, "written", errno);
    placed_ = true;
    sync_directory_of(path_);
}

void write_whole_file(const std::string& path, std::span<const std::uint8_t> bytes) {
    NewFile made(path, hidden_name(path, drawn_token()), std::ssize(bytes), true);
    made.file().write(0, std::as_bytes(bytes));
    made.file().sync();
    made.place();
}

std::vector<std::uint8_t> read_whole_file(const std::string& path) {
    const FlatFile file = FlatFile::to_read(path);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.size_bytes()));
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

}  // namespace datamover::io
