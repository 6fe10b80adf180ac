// SPDX-License-Identifier: BSD-3-Clause
// Cost model for moving elements to another process of the node.
//
// What was measured stands in the file of what was tuned, for the processor that it was measured
// on.
#include "datamover/advanced/transport_rates.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>

#include "geometry/make_error.hpp"
#include "geometry/word_digest.hpp"
#include "tuning_file.hpp"

namespace datamover {
namespace {

constexpr double rate_line_bytes = 64;
constexpr std::size_t rate_count = sizeof(TransportRates) / sizeof(double);
using RateNumbers = std::array<double, rate_count>;

bool make_sense(const TransportRates& rates) {
    for (const double rate : std::bit_cast<RateNumbers>(rates))
        if (!(rate >= 0) || !std::isfinite(rate)) return false;
    return true;
}

/// What the system calls the first processor; of another system nothing is known.
std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    std::string words;
    for (std::string line; std::getline(file, line) && !line.empty();)
        for (const char* word : {"model name", "CPU implementer", "CPU part"})
            if (line.starts_with(word)) words += line;
    return words;
}

std::int64_t key() {
    geometry::WordDigest digest;
    for (const char c : processor() + "transport rates 1") digest.put(c);
    return digest.value();
}

/// The same in every locale.
std::string as_text(const TransportRates& rates) {
    std::string text;
    for (const double rate : std::bit_cast<RateNumbers>(rates)) {
        std::array<char, 32> digits;
        const auto written = std::to_chars(digits.begin(), digits.end(), rate);
        text += (text.empty() ? "" : ",") + std::string(digits.begin(), written.ptr);
    }
    return text;
}

/// Nothing where a text holds something else.
std::optional<TransportRates> from_text(const std::string& text) {
    RateNumbers numbers{};
    const char *at = text.data(), *end = at + text.size();
    for (std::size_t i = 0; i < rate_count; ++i) {
        const auto [behind, failed] = std::from_chars(at, end, numbers[i]);
        const bool last = i + 1 == rate_count;
        if (failed != std::errc{} || (behind == end) != last || (!last && *behind != ','))
            return {};
        at = behind + 1;
    }
    const auto rates = std::bit_cast<TransportRates>(numbers);
    return make_sense(rates) ? std::optional(rates) : std::nullopt;
}

struct SharedRates {
    std::mutex mutex;
    TransportRates rates;

    SharedRates() {
        const std::string path = tuning_file_path();
        const std::string kept = path.empty() ? "" : find_in_tuning_file(path, key());
        rates = from_text(kept).value_or(TransportRates{});
    }
};

SharedRates& shared_rates() {
    static SharedRates shared;
    return shared;
}

double lines(std::int64_t bytes) {
    return static_cast<double>(bytes) / rate_line_bytes;
}

double runs(std::int64_t bytes, std::int64_t run_bytes) {
    return static_cast<double>(bytes) / static_cast<double>(run_bytes);
}

}  // namespace

double TransportRates::shared_ns(std::int64_t bytes) const {
    return shared_message + lines(bytes) * shared_line;
}

double TransportRates::staged_ns(std::int64_t bytes) const {
    return staged_message + lines(bytes) * staged_line;
}

double TransportRates::read_ns(std::int64_t bytes, std::int64_t run_bytes) const {
    return runs(bytes, run_bytes) * read_run + static_cast<double>(bytes) * read_byte;
}

double TransportRates::slots_ns(std::int64_t bytes, std::int64_t run_bytes) const {
    return runs(bytes, run_bytes) * slot_run + static_cast<double>(bytes) * slot_byte;
}

TransportRates transport_rates() {
    const std::lock_guard lock(shared_rates().mutex);
    return shared_rates().rates;
}

void set_transport_rates(const TransportRates& rates) {
    if (!make_sense(rates))
        throw make_error(ErrorCode::invalid_argument,
                         "rates of transports must be finite and not negative: ", as_text(rates));
    const std::lock_guard lock(shared_rates().mutex);
    shared_rates().rates = rates;
}

void keep_transport_rates(const TransportRates& rates) {
    set_transport_rates(rates);
    add_to_tuning_file(tuning_file_path(), key(), as_text(rates));
}

}  // namespace datamover
