// SPDX-License-Identifier: BSD-3-Clause
// Words: the values of a message between processes, described once for the end that writes them and
// the end that reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::stream {

/// Whether a text is UTF-8 of at most so many characters, none of them for control.
bool is_plain_text(std::string_view text, std::size_t most_characters = 256);

/// Most bytes of an error's words that are read of a control message.
inline constexpr std::size_t max_words = 2000;

class Words {
public:
    /// Who writes, or reads: another process at the same end of a stream, which may have made
    /// another call, or anybody.
    enum class Writer { same_end, anybody };

    /// Writes, for this end or for anybody: each call appends a value.
    explicit Words(Writer writer = Writer::same_end) : writer_(writer) {}
    /// Reads: each call replaces its value. Throws mismatch (of the same end) or io if there are no
    /// more words, or a value is outside its limits.
    Words(std::vector<std::int64_t> numbers, Writer writer)
        : reads_(true), writer_(writer), numbers_(std::move(numbers)) {}

    bool reads() const { return reads_; }
    const std::vector<std::int64_t>& numbers() const { return numbers_; }

    template <class Number>
    Words& pass(Number& number, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
        if (reads_)
            number = static_cast<Number>(within(numbers_[next(1)], least, most));
        else
            numbers_.push_back(static_cast<std::int64_t>(number));
        return *this;
    }
    Words& pass(std::string& text);
    /// A text that is_plain_text accepts.
    Words& pass_name(std::string& text, std::size_t most_characters = 256);
    /// An error: peer_failed if its code is unknown; to and of anybody few words, without control
    /// characters.
    Words& pass(Error& error);
    /// One that there may be; with `is_needed` it has to be there.
    Words& pass(std::optional<Error>& error, bool is_needed = false);
    /// A list: `each` passes the parts of one item.
    template <class Item, class Each>
    Words& pass(std::vector<Item>& items, const Each& each,
                std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
        std::size_t count = items.size();
        pass(count, 0, most);
        if (reads_) items.clear();
        for (std::size_t n = 0; n < count; ++n) each(reads_ ? items.emplace_back() : items[n]);
        return *this;
    }
    /// Throws if there are more words than were read.
    void require_end() const {
        if (at_ != numbers_.size()) refuse();
    }
    [[noreturn]] void refuse() const;

private:
    std::size_t next(std::size_t count) {
        if (numbers_.size() - at_ < count) refuse();
        return std::exchange(at_, at_ + count);
    }
    std::int64_t within(std::int64_t number, std::int64_t least, std::int64_t most) const;

    bool reads_ = false;
    Writer writer_ = Writer::same_end;
    std::vector<std::int64_t> numbers_;
    std::size_t at_ = 0;
};

}  // namespace datamover::stream
