// SPDX-License-Identifier: BSD-3-Clause
// Encoding of the messages between sending processes: numbers and texts, one after the other. The
// processes of one program trust each other.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::stream {

/// Writes words down as numbers.
class WordWriter {
public:
    WordWriter& add(std::int64_t number) {
        numbers_.push_back(number);
        return *this;
    }
    WordWriter& add(std::string_view text) {
        const std::size_t begin = numbers_.size() + 1;
        numbers_.push_back(static_cast<std::int64_t>(text.size()));
        numbers_.resize(begin + (text.size() + 7) / 8, 0);
        if (!text.empty()) std::memcpy(numbers_.data() + begin, text.data(), text.size());
        return *this;
    }
    const std::vector<std::int64_t>& numbers() const { return numbers_; }

private:
    std::vector<std::int64_t> numbers_;
};

/// Reads them in the same order. Throws mismatch where there are no more: the other process has
/// made another call.
class WordReader {
public:
    explicit WordReader(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {}

    std::int64_t number() {
        require(1);
        return numbers_[at_++];
    }
    std::string text() {
        const auto size = static_cast<std::size_t>(number());
        const std::size_t count = size / 8 + (size % 8 != 0);
        require(count);
        std::string text(size, '\0');
        if (size != 0) std::memcpy(text.data(), numbers_.data() + at_, size);
        at_ += count;
        return text;
    }

private:
    void require(std::size_t count) const {
        if (numbers_.size() - at_ < count)
            throw Error(ErrorCode::mismatch, "another process of the stream makes another call");
    }

    std::vector<std::int64_t> numbers_;
    std::size_t at_ = 0;
};

}  // namespace datamover::stream
