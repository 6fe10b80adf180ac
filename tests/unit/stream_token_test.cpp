// SPDX-License-Identifier: BSD-3-Clause
// Tokens: a stream's file is found by its user alone, however others try to replace it.
#include "stream/wire/token.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {
namespace {

namespace fs = std::filesystem;

const std::string address = "tcp://127.0.0.1:5777", other_address = "tcp://[::1]:5777";

class StreamToken : public ::testing::Test {
protected:
    StreamToken() {
        std::string name = (fs::temp_directory_path() / "datamover-test-XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        place_ = name;
    }
    ~StreamToken() override { fs::remove_all(place_); }

    std::string directory(const std::string& name, mode_t mode = 0700) const {
        const std::string path = place_ / name;
        EXPECT_EQ(::mkdir(path.c_str(), 0700), 0);
        EXPECT_EQ(::chmod(path.c_str(), mode), 0);
        return path;
    }
    static std::string content(const std::string& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static void write(const std::string& path, const std::string& text, mode_t mode = 0600) {
        std::ofstream(path) << text;
        EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    }

    fs::path place_;
};

TEST_F(StreamToken, IsFoundByItsUserUnderTheAddressWhileTheStreamIsOpen) {
    const std::vector<std::string> directories{directory("run")};
    EXPECT_EQ(stored_token(address, directories), "");
    std::string path;
    {
        const TokenFile one(address, "the token of one", directories);
        const TokenFile other(other_address, "the token of another", directories);
        path = one.path();
        struct stat found{};
        ASSERT_EQ(::stat(path.c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 07777, 0600u);
        EXPECT_EQ(stored_token(address, directories), "the token of one");
        EXPECT_EQ(stored_token(other_address, directories), "the token of another");
        EXPECT_EQ(stored_token("tcp://127.0.0.1:5778", directories), "");
    }
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(fs::is_empty(directories[0]));
}

TEST_F(StreamToken, IsInTheFirstDirectoryThatOnlyItsUserCanAccess) {
    const std::string run = directory("run"), last = place_ / "made";
    const TokenFile file(address, "the token in run", {run, last});
    EXPECT_FALSE(fs::exists(last));
    EXPECT_EQ(stored_token(address, {last, run}), "the token in run");
    {
        const TokenFile elsewhere(address, "the token in made", {directory("open", 0755), last});
        EXPECT_EQ(elsewhere.path().rfind(last, 0), 0u);
        struct stat found{};
        ASSERT_EQ(::stat(last.c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 07777, 0700u);
        EXPECT_EQ(stored_token(address, {place_ / "open", last}), "the token in made");
    }
    EXPECT_THROW(TokenFile(address, "nowhere to be put", {place_ / "open"}), Error);
    EXPECT_THROW(TokenFile(address, "nowhere to be put", {place_ / "none" / "none"}), Error);
    EXPECT_THROW(TokenFile(address, "nowhere to be put", {place_ / "none", place_ / "open"}),
                 Error);
    EXPECT_FALSE(fs::exists(place_ / "none")) << "perhaps it is made for another user";
}

TEST_F(StreamToken, IsNotPutWhereAnotherUserCouldReadOrReplaceIt) {
    const std::string hidden = directory("hidden"), link = place_ / "link", file = place_ / "file";
    fs::create_symlink(hidden, link);
    write(file, "");
    std::vector<std::string> wrong{link, file, directory("readable", 0750),
                                   directory("writable", 0707)};
    if (::geteuid() == 0) {  // else nobody's directory cannot be made
        wrong.push_back(directory("foreign"));
        ASSERT_EQ(::chown(wrong.back().c_str(), 12345, 12345), 0);
    }
    for (const std::string& path : wrong) {
        try {
            const TokenFile none(address, "a token for nobody", {path});
            ADD_FAILURE() << path;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::io);
            EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
        }
        EXPECT_EQ(stored_token(address, {path}), "");
    }
    EXPECT_TRUE(fs::is_empty(hidden));
}

TEST_F(StreamToken, OfAFileThatAnotherUserCouldHaveWrittenIsIgnored) {
    const std::vector<std::string> directories{directory("run")};
    const std::string path = TokenFile(address, "only for the path", directories).path();
    const std::string secret = place_ / "secret";
    write(secret, "not for any stream");
    fs::create_symlink(secret, path);
    EXPECT_EQ(stored_token(address, directories), "") << "a symbolic link";
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(stored_token(address, directories), "") << "a pipe, which is not waited for";
    fs::remove(path);
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(stored_token(address, directories), "") << "a directory";
    fs::remove(path);
    for (const mode_t mode : {0640, 0604, 0602, 0610}) {
        write(path, "the token of others", mode);
        EXPECT_EQ(stored_token(address, directories), "") << mode;
        fs::remove(path);
    }
    for (const std::string& text :
         {std::string(), std::string(257, 'x'), std::string(1 << 20, 'x'), std::string("a\nb"),
          std::string("\xff\xfe token"), std::string("\0 token", 8)}) {
        write(path, text);
        EXPECT_EQ(stored_token(address, directories), "") << text.size();
    }
    write(path, std::string(256, 'x'));
    EXPECT_EQ(stored_token(address, directories), std::string(256, 'x'));
    if (::geteuid() == 0) {
        ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
        EXPECT_EQ(stored_token(address, directories), "") << "another user's";
    }
}

TEST_F(StreamToken, ReplacesThatOfAKilledStreamAndWhatElseIsInItsPlace) {
    const std::vector<std::string> directories{directory("run")};
    std::string path;
    const pid_t killed = ::fork();
    ASSERT_GE(killed, 0);
    if (killed == 0) {
        new TokenFile(address, "that of the killed", directories);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(killed, &status, 0), killed);
    EXPECT_EQ(stored_token(address, directories), "that of the killed");
    path = TokenFile(address, "that of the next", directories).path();
    EXPECT_FALSE(fs::exists(path));
    const std::string secret = place_ / "secret";
    write(secret, "keep this");
    fs::create_symlink(secret, path);
    {
        const TokenFile file(address, "that of the last", directories);
        EXPECT_EQ(stored_token(address, directories), "that of the last");
        EXPECT_FALSE(fs::is_symlink(path));
    }
    EXPECT_EQ(content(secret), "keep this");
    EXPECT_TRUE(fs::is_empty(directories[0]));
}

TEST_F(StreamToken, StaysWhereAForkedProcessEnds) {
    const std::vector<std::string> directories{directory("run")};
    auto file = std::make_unique<TokenFile>(address, "that of the parent", directories);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        file.reset();
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(stored_token(address, directories), "that of the parent");
}

TEST_F(StreamToken, DirectoriesAreThatOfTheSessionAndOneOfTheUsers) {
    const char* const before = std::getenv("XDG_RUNTIME_DIR");
    const std::string kept = before != nullptr ? before : "";
    const std::string own = "/tmp/datamover-" + std::to_string(::geteuid());
    ::setenv("XDG_RUNTIME_DIR", "/run/somewhere", 1);
    EXPECT_EQ(runtime_directories(), (std::vector<std::string>{"/run/somewhere", own}));
    for (const char* const none : {"", "relative"}) {
        ::setenv("XDG_RUNTIME_DIR", none, 1);
        EXPECT_EQ(runtime_directories(), std::vector<std::string>{own});
    }
    ::unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ(runtime_directories(), std::vector<std::string>{own});
    if (before != nullptr) ::setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
}

TEST_F(StreamToken, OfAUserIsPrintableAndOfLimitedLength) {
    for (const std::string& wrong :
         {std::string(), std::string("short"), std::string(15, 'x'), std::string(257, 'x'),
          std::string(1 << 20, 'x'), std::string(20, '\n'), std::string(20, '\0'),
          std::string(20, '\x7f'), std::string(20, '\xc3')})
        EXPECT_THROW(check_token(wrong), Error) << wrong.size();
    check_token(std::string(16, ' '));
    check_token(std::string(256, '~'));
    ::setenv("DATAMOVER_STREAM_TOKEN", "that of the environment", 1);
    EXPECT_EQ(given_token({}), "that of the environment");
    EXPECT_EQ(given_token("that of the program"), "that of the program");
    EXPECT_EQ(given_token("short"), "short") << "the stream refuses it";
    EXPECT_THROW(given_token(std::string(257, 'x')), Error);
    EXPECT_THROW(given_token("a\nb"), Error);
    ::setenv("DATAMOVER_STREAM_TOKEN", std::string(1 << 16, 'x').c_str(), 1);
    EXPECT_THROW(given_token({}), Error);
    ::setenv("DATAMOVER_STREAM_TOKEN", "", 1);
    EXPECT_EQ(given_token({}), std::nullopt);
    ::unsetenv("DATAMOVER_STREAM_TOKEN");
    EXPECT_EQ(given_token({}), std::nullopt);
    EXPECT_EQ(new_token().size(), 48u);
    check_token(new_token());
    EXPECT_NE(new_token(), new_token());
    EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
    EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
    EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
    EXPECT_FALSE(equal_in_constant_time("abc", ""));
}

TEST_F(StreamToken, IsNotNeededOverALocalSocketOfTheSameUser) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    const Connection here(ends[0]), there(ends[1]);
    EXPECT_TRUE(here.is_of_this_user());
    const Connection by_tcp(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_FALSE(by_tcp.is_of_this_user());
}

}  // namespace
}  // namespace datamover::stream
