// SPDX-License-Identifier: BSD-3-Clause
// Words: numbers and texts that the processes of one program exchange. The same calls write and
// read them. The processes of one program trust each other.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::stream {

class Words {
public:
    /// Writes: each call appends a value.
    Words() = default;
    /// Reads: each call replaces its value. Throws mismatch if there are no more: the other process
    /// made another call.
    explicit Words(std::vector<std::int64_t> numbers)
        : reads_(true), numbers_(std::move(numbers)) {}

    bool reads() const { return reads_; }
    const std::vector<std::int64_t>& numbers() const { return numbers_; }

    template <class Number>
    Words& pass(Number& number) {
        if (reads_)
            number = static_cast<Number>(numbers_[next(1)]);
        else
            numbers_.push_back(static_cast<std::int64_t>(number));
        return *this;
    }
    Words& pass(std::string& text) {
        std::size_t bytes = text.size();
        pass(bytes);
        const std::size_t count = bytes / 8 + (bytes % 8 != 0);
        if (!reads_) numbers_.resize(numbers_.size() + count, 0);
        const std::size_t at = reads_ ? next(count) : numbers_.size() - count;
        if (reads_) text.resize(bytes);
        if (bytes == 0) return *this;
        if (reads_)
            std::memcpy(text.data(), numbers_.data() + at, bytes);
        else
            std::memcpy(numbers_.data() + at, text.data(), bytes);
        return *this;
    }
    Words& pass(Error& error) {
        auto code = static_cast<std::int64_t>(error.code());
        std::string text = error.what();
        pass(code).pass(text);
        if (reads_) error = Error(static_cast<ErrorCode>(code), text);
        return *this;
    }
    /// A list: `each` passes the parts of one item.
    template <class Item, class Each>
    Words& pass(std::vector<Item>& items, const Each& each) {
        std::size_t count = items.size();
        pass(count);
        if (reads_) items.clear();
        for (std::size_t n = 0; n < count; ++n) each(reads_ ? items.emplace_back() : items[n]);
        return *this;
    }

private:
    std::size_t next(std::size_t count) {
        if (numbers_.size() - at_ < count)
            throw Error(ErrorCode::mismatch, "another process of the stream makes another call");
        return std::exchange(at_, at_ + count);
    }

    bool reads_ = false;
    std::vector<std::int64_t> numbers_;
    std::size_t at_ = 0;
};

}  // namespace datamover::stream
