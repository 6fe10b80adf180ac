// SPDX-License-Identifier: BSD-3-Clause
// Command-line arguments of an application, and the selection of the versions to run.
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

/// A version of an application: what it is called among the arguments and in rows, and who makes
/// it.
template <class Version, class Problem>
struct Choice {
    std::string name, contender;
    std::unique_ptr<Version> (*make)(const Problem&);
    bool with_thread = false;  ///< a progress thread runs beside it
};

/// The version that wants threads of MPI.
inline constexpr const char* threaded_version = "thread";

/// Who makes which version. Every application has the first two.
template <class Version, class Problem>
struct Makers {
    using Make = std::unique_ptr<Version> (*)(const Problem&);
    Make with_datamover, by_hand;
    Make incomplete;                                 ///< for tests: its verification has to fail
    Make overlapped = nullptr;                       ///< where there is one, also with a thread
    std::vector<Choice<Version, Problem>> others{};  ///< by hand too, in other ways

    /// The versions in a comma-separated list. Throws BadInput.
    std::vector<Choice<Version, Problem>> chosen(std::string_view names) const {
        std::vector<Choice<Version, Problem>> all{{"datamover", "datamover", with_datamover}};
        if (overlapped != nullptr) {
            all.push_back({"overlap", "datamover:overlap", overlapped});
            all.push_back({threaded_version, "datamover:overlap:thread", overlapped, true});
        }
        all.push_back({"by_hand", "by_hand", by_hand});
        all.insert(all.end(), others.begin(), others.end());
        std::vector<Choice<Version, Problem>> found;
        for (const std::string& name : words_of(names)) {
            const auto named = [&](const auto& choice) { return choice.name == name; };
            const auto choice = std::find_if(all.begin(), all.end(), named);
            if (choice != all.end())
                found.push_back(*choice);
            else if (name == "incomplete")
                found.push_back({name, name, incomplete});
            else
                throw BadInput("there is no version '" + name + "'; there are " + listed(all));
        }
        return found;
    }

private:
    static std::string listed(const std::vector<Choice<Version, Problem>>& choices) {
        std::string list;
        for (std::size_t i = 0; i < choices.size(); ++i)
            list += (i == 0 ? "" : i + 1 < choices.size() ? ", " : " and ") + choices[i].name;
        return list;
    }
};

}  // namespace apps
