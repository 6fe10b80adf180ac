// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the decode-or-recompute model on this machine, and a comparison of its predictions
// with measurements. Prints JSON objects, one per line: the rates, the costs of decoding, and rows.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "datamover/advanced/decoding_costs.hpp"
#include "relations_contest.hpp"
#include "relations_patterns.hpp"

namespace {

using bench::Memory;
using datamover::AddressRelation;
using datamover::CopyKernel;
using datamover::DecodingCosts;
using datamover::Encoding;
using datamover::LoopInstructions;
using datamover::MachineRates;
using datamover::RecomputeModel;

/// Words that the machine's rates are measured with: those of the paper's messages, which stay in
/// the caches, as the relations and messages of a running program do.
constexpr std::int64_t rate_words = 1 << 16;
/// What a compiled loop adds to its work: count, compare and branch, as one fused pair.
constexpr double loop_instructions = 2;
constexpr int turns = 21;

/// The value is wanted; nothing is assumed of it afterwards.
template <class T>
void keep(T& value) {
    asm volatile("" : "+r"(value) : : "memory");
}

/// The median of several turns, each long enough for the clock.
double seconds_of(const std::function<void()>& work) {
    work();
    std::int64_t repeats = 1;
    std::vector<double> seconds;
    while (static_cast<int>(seconds.size()) < turns) {
        const double start = bench::seconds_now();
        for (std::int64_t i = 0; i < repeats; ++i) work();
        const double taken = bench::seconds_now() - start;
        if (taken < 1.5e-4)
            repeats *= 2;
        else
            seconds.push_back(taken / static_cast<double>(repeats));
    }
    std::nth_element(seconds.begin(), seconds.begin() + turns / 2, seconds.end());
    return seconds[turns / 2];
}

/// Integer instructions per second: four streams of shifts and exclusive ors.
double instructions_per_second() {
    constexpr std::int64_t rounds = 4096;
    constexpr double per_round = 4 * 4 + loop_instructions;
    const double seconds = seconds_of([] {
        std::uint64_t x[4] = {1, 2, 3, 4};
        for (std::int64_t i = 0; i < rounds; ++i)
            for (std::uint64_t& v : x) {
                v ^= v << 13;
                v ^= v >> 7;
                keep(v);
            }
    });
    return rounds * per_round / seconds;
}

MachineRates measured_rates() {
    const Memory<std::int64_t> words(rate_words);
    std::int64_t* const data = words.get();
    MachineRates rates;
    rates.instructions = instructions_per_second();
    rates.read_contiguous = rate_words / seconds_of([=] {
                                std::int64_t sum = 0;
                                for (std::int64_t i = 0; i < rate_words; ++i) sum += data[i];
                                keep(sum);
                            });
    rates.read_random = rate_words / seconds_of([=] {
                            std::int64_t sum = 0;
                            std::uint64_t at = 1;
                            for (std::int64_t i = 0; i < rate_words; ++i) {
                                at = at * 6364136223846793005u + 1442695040888963407u;
                                sum += data[at >> 48];
                            }
                            keep(sum);
                        });
    rates.write_contiguous = rate_words / seconds_of([=] {
                                 for (std::int64_t i = 0; i < rate_words; ++i) data[i] = i;
                                 std::int64_t* written = data;
                                 keep(written);
                             });
    return rates;
}

/// Runs of `elems` contiguous elements at places in random order, each `stride` elements apart.
AddressRelation scattered_rows(std::int64_t rows, std::int64_t elems, std::int64_t stride) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
    for (const std::int64_t row : order)
        for (std::int64_t i = 0; i < elems; ++i) {
            source.push_back(row * (elems * stride + 1) + i * stride);
            destination.push_back(static_cast<std::int64_t>(destination.size()));
        }
    return AddressRelation::from_pairs(source, destination, 8, 8);
}

/// What decoding costs beyond `moving` seconds and reading the encoding, per item, in nanoseconds.
double cost_per_item(const AddressRelation& relation, Encoding encoding, double items,
                     double moving, double byte, const double* from, double* to) {
    const AddressRelation encoded = relation.encode(encoding);
    const CopyKernel kernel = encoded.kernel();
    const double seconds = seconds_of([&] { kernel(from, to); });
    const double read = 1e-9 * byte * static_cast<double>(encoded.nbytes());
    constexpr double least = 0.05;  // nothing is free
    return std::max(least, 1e9 * (seconds - moving - read) / items);
}

DecodingCosts measured_costs(const MachineRates& rates) {
    constexpr std::int64_t n = 1 << 15;
    constexpr std::int64_t row = 8;
    const Memory<double> from(2 * n + n / row + 1);
    const Memory<double> to(n);
    const double moving = seconds_of(
        [&] { std::memcpy(to.get(), from.get(), static_cast<std::size_t>(n) * sizeof(double)); });
    const AddressRelation singles = scattered_rows(n, 1, 1);
    const AddressRelation rows = scattered_rows(n / row, row, 1);
    const AddressRelation strided = scattered_rows(n / row, row, 2);
    DecodingCosts costs;
    costs.byte = 1e9 / (8 * rates.read_contiguous);
    auto cost = [&](const AddressRelation& relation, Encoding encoding, double items) {
        return cost_per_item(relation, encoding, items, moving, costs.byte, from.get(), to.get());
    };
    costs.pair = cost(singles, Encoding::pairs, n);
    costs.offset = cost(singles, Encoding::offsets, n);
    costs.block = cost(rows, Encoding::blocks, n / row);
    costs.symbol = cost(strided, Encoding::runs, 2.0 * n / row);
    return costs;
}

void print_row(const std::string& name, const char* phase, const char* contender, double seconds,
               std::int64_t bytes) {
    std::printf(
        "{\"case\": \"%s\", \"phase\": \"%s\", \"contender\": \"%s\", \"processes\": 1, "
        "\"seconds\": %.6g, \"runs\": %d, \"bytes\": %lld}\n",
        name.c_str(), phase, contender, seconds, turns, static_cast<long long>(bytes));
}

/// Recomputing, encoding and decoding a relation of pairs that is put: measured and predicted.
void compare(const bench::Redistribution& r, std::int64_t n, const MachineRates& rates) {
    const std::int64_t elems = bench::pattern_of(r, n).size();
    const Memory<double> memory(n * n / 4);
    const Memory<double> message(2 * elems);
    const Memory<std::int64_t> pairs(2 * elems);
    const double* const from = memory.get();
    double* const to = message.get();
    std::int64_t* const stored = pairs.get();
    const double generating = seconds_of([&] {
        std::int64_t sum = 0;
        bench::for_each_pair(r, n, [&](std::int64_t s, std::int64_t d) { sum += s ^ d; });
        keep(sum);
    });
    const double recomputing = seconds_of([&] {
        double* next = to;
        bench::for_each_pair(r, n, [&](std::int64_t s, std::int64_t d) {
            *next++ = static_cast<double>(d);
            *next++ = from[s];
        });
    });
    const double encoding = seconds_of([&] {
        std::int64_t* next = stored;
        bench::for_each_pair(r, n, [&](std::int64_t s, std::int64_t d) {
            *next++ = s;
            *next++ = d;
        });
    });
    const double decoding = seconds_of([&] {
        for (std::int64_t k = 0; k < elems; ++k) {
            to[2 * k] = static_cast<double>(stored[2 * k + 1]);
            to[2 * k + 1] = from[stored[2 * k]];
        }
    });
    LoopInstructions loops{0, loop_instructions, loop_instructions, loop_instructions};
    loops.generate = generating / static_cast<double>(elems) * rates.instructions;
    const RecomputeModel model(rates, loops);
    const auto times = static_cast<double>(elems);
    const std::string name = r.name + ("-" + std::to_string(n));
    const std::int64_t bytes = elems * 8;
    const double predicted_encoding =
        model.amortised_seconds(1) * times - model.decode_seconds() * times;
    print_row(name, "recompute", "measured", recomputing, bytes);
    print_row(name, "recompute", "predicted", model.recompute_seconds() * times, bytes);
    print_row(name, "encode", "measured", encoding, bytes);
    print_row(name, "encode", "predicted", predicted_encoding, bytes);
    print_row(name, "decode", "measured", decoding, bytes);
    print_row(name, "decode", "predicted", model.decode_seconds() * times, bytes);
    std::printf(
        "{\"prediction\": \"%s\", \"generate_instructions\": %.4g, "
        "\"threshold_instructions\": %.4g, \"break_even_predicted\": %lld, "
        "\"break_even_measured\": %.4g, \"speedup_predicted\": %.4g, "
        "\"speedup_measured\": %.4g}\n",
        name.c_str(), loops.generate, model.threshold_instructions(),
        static_cast<long long>(model.break_even_uses()),
        encoding / std::max(1e-12, recomputing - decoding), model.ultimate_speedup(),
        recomputing / decoding);
}

}  // namespace

int main(int argc, char** argv) {
    const MachineRates rates = measured_rates();
    std::printf(
        "{\"rates\": {\"instructions\": %.6g, \"read_contiguous\": %.6g, "
        "\"read_random\": %.6g, \"write_contiguous\": %.6g}}\n",
        rates.instructions, rates.read_contiguous, rates.read_random, rates.write_contiguous);
    const DecodingCosts costs = measured_costs(rates);
    std::printf(
        "{\"decoding_costs\": {\"pair\": %.4g, \"block\": %.4g, \"symbol\": %.4g, "
        "\"offset\": %.4g, \"byte\": %.4g, \"tolerated_slowness\": %.4g}}\n",
        costs.pair, costs.block, costs.symbol, costs.offset, costs.byte, costs.tolerated_slowness);
    for (const bench::Redistribution& r : bench::redistributions)
        for (const std::int64_t n : {1024, 2048}) {
            const std::string name = r.name + ("-" + std::to_string(n));
            bool wanted = argc <= 1;
            for (int a = 1; a < argc; ++a) wanted = wanted || name.rfind(argv[a], 0) == 0;
            if (wanted) compare(r, n, rates);
        }
    return 0;
}
