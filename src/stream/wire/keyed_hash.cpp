// SPDX-License-Identifier: BSD-3-Clause
// SHA-256 and HMAC as in FIPS 180-4 and RFC 2104. Speed is not important here.
#include "stream/wire/keyed_hash.hpp"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::stream {
namespace {

constexpr std::size_t block_bytes = 64;

using State = std::array<std::uint32_t, 8>;
using Digest = std::array<unsigned char, 32>;

constexpr State first_state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(State& state, const unsigned char* block) {
    std::array<std::uint32_t, 64> words;
    for (std::size_t n = 0; n < 16; ++n)
        words[n] = std::uint32_t{block[4 * n]} << 24 | std::uint32_t{block[4 * n + 1]} << 16 |
                   std::uint32_t{block[4 * n + 2]} << 8 | block[4 * n + 3];
    for (std::size_t n = 16; n < 64; ++n) {
        const std::uint32_t a = words[n - 15], b = words[n - 2];
        words[n] = words[n - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[n - 7] +
                   (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t n = 0; n < 64; ++n) {
        const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                    ((e & f) ^ (~e & g)) + round_constants[n] + words[n];
        const std::uint32_t second =
            (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const State added{a, b, c, d, e, f, g, h};
    for (std::size_t n = 0; n < state.size(); ++n) state[n] += added[n];
}

Digest sha256(std::vector<unsigned char> bytes) {
    const std::uint64_t bits = 8 * static_cast<std::uint64_t>(bytes.size());
    bytes.push_back(0x80);
    while (bytes.size() % block_bytes != block_bytes - 8) bytes.push_back(0);
    for (int n = 7; n >= 0; --n) bytes.push_back(static_cast<unsigned char>(bits >> 8 * n));
    State state = first_state;
    for (std::size_t at = 0; at < bytes.size(); at += block_bytes) add_block(state, &bytes[at]);
    Digest digest;
    for (std::size_t n = 0; n < digest.size(); ++n)
        digest[n] = static_cast<unsigned char>(state[n / 4] >> 8 * (3 - n % 4));
    return digest;
}

template <class Bytes>
std::string digits_of(const Bytes& bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

}  // namespace

std::string keyed_hash(std::string_view key, std::string_view text) {
    std::vector<unsigned char> block(key.begin(), key.end());
    if (block.size() > block_bytes) {
        const Digest shorter = sha256(block);
        block.assign(shorter.begin(), shorter.end());
    }
    block.resize(block_bytes);
    std::vector<unsigned char> inner = block, outer = block;
    for (unsigned char& byte : inner) byte ^= 0x36;
    for (unsigned char& byte : outer) byte ^= 0x5c;
    inner.insert(inner.end(), text.begin(), text.end());
    const Digest digest = sha256(inner);
    outer.insert(outer.end(), digest.begin(), digest.end());
    return digits_of(sha256(outer));
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned char differs = 0;
    for (std::size_t n = 0; n < a.size(); ++n) differs |= static_cast<unsigned char>(a[n] ^ b[n]);
    return differs == 0;
}

std::string random_digits(int bytes) {
    std::vector<unsigned char> random(static_cast<std::size_t>(bytes));
    // Up to 256 bytes are given whole.
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        throw Error(ErrorCode::io, "cannot read random numbers from the system");
    return digits_of(random);
}

}  // namespace datamover::stream
