// SPDX-License-Identifier: BSD-3-Clause
// Which arguments may an application be given, and which version of it do they ask for?
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace apps {

/// Arguments that make no sense: seen by all processes alike, before anything has begun.
struct BadInput : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The words of a comma-separated list.
inline std::vector<std::string> words_of(std::string_view list) {
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        words.emplace_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

/// A number between two others. Throws BadInput, naming what it is for.
inline std::int64_t number_of(const std::string& text, const char* what, std::int64_t least,
                              std::int64_t most) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most)
        throw BadInput(std::string(what) + " must be a whole number from " + std::to_string(least) +
                       " to " + std::to_string(most) + ", not '" + text + "'");
    return value;
}

/// A version of an application that was asked for: what its rows are called, and who makes it.
template <class Version, class Problem>
struct Choice {
    std::string contender;
    std::unique_ptr<Version> (*make)(const Problem&);
    bool with_thread = false;  ///< a progress thread runs beside it
};

/// The version that wants threads of MPI.
inline constexpr const char* threaded_version = "thread";

/// Who makes which version. Every application has the first four.
template <class Version, class Problem>
struct Makers {
    using Make = std::unique_ptr<Version> (*)(const Problem&);
    Make with_datamover, overlapped, by_hand;
    Make incomplete;      ///< for tests: its verification has to fail
    Make ring = nullptr;  ///< by hand in another way, where there is one

    /// The versions in a comma-separated list. Throws BadInput.
    std::vector<Choice<Version, Problem>> chosen(std::string_view names) const {
        std::vector<Choice<Version, Problem>> found;
        for (const std::string& name : words_of(names))
            if (name == "datamover")
                found.push_back({"datamover", with_datamover});
            else if (name == "overlap")
                found.push_back({"datamover:overlap", overlapped});
            else if (name == threaded_version)
                found.push_back({"datamover:overlap:thread", overlapped, true});
            else if (name == "by_hand")
                found.push_back({"by_hand", by_hand});
            else if (name == "incomplete")
                found.push_back({"incomplete", incomplete});
            else if (name == "ring" && ring != nullptr)
                found.push_back({"by_hand:ring", ring});
            else
                throw BadInput("there is no version '" + name +
                               "'; there are datamover, overlap, thread" +
                               (ring == nullptr ? " and by_hand" : ", by_hand and ring"));
        return found;
    }
};

}  // namespace apps
