// SPDX-License-Identifier: BSD-3-Clause
// Token: the secret that a consumer presents to a stream, and the file in which consumers of the
// same user on the same machine find it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace datamover::stream {

/// Random bytes that nobody can guess, as hexadecimal digits. Throws io.
std::string random_digits(int bytes);

/// Whether two texts are equal. The time that this takes does not depend on where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// A new token.
std::string new_token();
/// Throws invalid_argument unless a user's token is printable ASCII of 16 to 256 characters.
void check_token(std::string_view token);
/// The token that a user gave to a consumer, or that of DATAMOVER_STREAM_TOKEN, if any. Throws
/// invalid_argument if it is no text that a stream can have.
std::optional<std::string> given_token(const std::optional<std::string>& option);

/// Where tokens are stored: $XDG_RUNTIME_DIR, if set, then /tmp/datamover-UID.
std::vector<std::string> runtime_directories();

/// The token of a stream in a file that only its user can read, named after its address. The file
/// is removed with this object, except in a forked process.
class TokenFile {
public:
    /// Stores it in the first directory that only this user can access; the last one is created if
    /// it does not exist. Replaces the file of a stream that was killed. Throws io.
    TokenFile(const std::string& address, const std::string& token,
              const std::vector<std::string>& directories = runtime_directories());
    ~TokenFile();
    TokenFile(const TokenFile&) = delete;
    TokenFile& operator=(const TokenFile&) = delete;

    const std::string& path() const { return path_; }

private:
    std::string path_;
    int process_;
};

/// The token that a stream of this user has stored for its address; "" if none. Files and
/// directories that another user could have written are ignored.
std::string stored_token(const std::string& address,
                         const std::vector<std::string>& directories = runtime_directories());

}  // namespace datamover::stream
