// SPDX-License-Identifier: BSD-3-Clause
// Output of a benchmark program: JSON objects, one per line on stdout.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

/// One line: a row with its `samples` (seconds of each repetition), or a note on a contender that
/// was left out. The harness behind `datamover bench` makes medians of the samples of all rounds.
class Line {
public:
    Line& text(const char* key, const std::string& value) {
        begin(key);
        line_ += '"';
        for (const char c : value) {
            if (c == '"' || c == '\\') line_ += '\\';
            line_ += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        line_ += '"';
        return *this;
    }
    Line& integer(const char* key, std::int64_t value) {
        begin(key);
        line_ += std::to_string(value);
        return *this;
    }
    Line& boolean(const char* key, bool value) {
        begin(key);
        line_ += value ? "true" : "false";
        return *this;
    }
    Line& number(const char* key, double value) {
        begin(key);
        append(value);
        return *this;
    }
    Line& numbers(const char* key, const std::vector<double>& values) {
        begin(key);
        line_ += '[';
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i > 0) line_ += ", ";
            append(values[i]);
        }
        line_ += ']';
        return *this;
    }
    /// The JSON object by itself.
    std::string object() const { return '{' + line_ + '}'; }
    void print() const {
        std::printf("{%s}\n", line_.c_str());
        std::fflush(stdout);
    }

private:
    void begin(const char* key) {
        if (!line_.empty()) line_ += ", ";
        line_ += std::string("\"") + key + "\": ";
    }
    void append(double value) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.6g", value);
        line_ += digits;
    }

    std::string line_;
};

}  // namespace bench
