// SPDX-License-Identifier: BSD-3-Clause
// Bodies of the loops that scan address lists, compiled once per instruction set. Included once
// per instruction set level, inside a namespace of that level: each iteration depends on no other,
// so that the compiler makes vectors. No include guard: that is the point.

inline DifferenceCounts count_differences(const std::int64_t* s, const std::int64_t* d,
                                          std::int64_t n, std::int64_t source_step,
                                          std::int64_t destination_step) {
    if (n < 2) return {};
    auto touches = [&](std::int64_t ss, std::int64_t ds) {
        return ((ss ^ source_step) | (ds ^ destination_step)) == 0 ? 1 : 0;
    };
    std::int64_t touching = touches(s[1] - s[0], d[1] - d[0]);
    std::int64_t changes = 0;
    for (std::int64_t i = 2; i < n; ++i) {
        const std::int64_t ss = s[i] - s[i - 1];
        const std::int64_t ds = d[i] - d[i - 1];
        touching += touches(ss, ds);
        const std::int64_t change = (ss ^ (s[i - 1] - s[i - 2])) | (ds ^ (d[i - 1] - d[i - 2]));
        changes += change != 0 ? 1 : 0;
    }
    return {touching, changes};
}

inline AddressRange address_range(const std::int64_t* a, std::int64_t n) {
    std::int64_t low = a[0];
    std::int64_t high = a[0];
    for (std::int64_t i = 1; i < n; ++i) {
        low = a[i] < low ? a[i] : low;
        high = a[i] > high ? a[i] : high;
    }
    return {low, high};
}

inline bool evenly_spaced(const std::int64_t* a, std::int64_t n, std::int64_t step) {
    // In parts, so that what is not even is soon seen.
    constexpr std::int64_t part = 64;
    for (std::int64_t first = 1; first < n; first += part) {
        const std::int64_t end = first + part < n ? first + part : n;
        std::int64_t different = 0;
        for (std::int64_t i = first; i < end; ++i) different |= (a[i] - a[i - 1]) ^ step;
        if (different != 0) return false;
    }
    return true;
}

inline void write_offsets(const std::int64_t* a, std::int64_t n, std::int64_t low, int shift,
                          std::int64_t width, unsigned char* to) {
    with_width(width, [=]<std::int64_t bytes>() {
        // Of three, each writes four bytes, the last of which the next one overwrites.
        constexpr std::int64_t written = bytes == 3 ? 4 : bytes;
        for (std::int64_t i = 0; i < n; ++i) {
            const auto offset = static_cast<std::uint64_t>((a[i] - low) >> shift);
            const auto narrow = static_cast<Unsigned<written>>(offset);
            __builtin_memcpy(to + i * bytes, &narrow, sizeof narrow);
        }
    });
}

inline void read_offsets(const unsigned char* offsets, std::int64_t n, std::int64_t base,
                         std::int64_t unit, std::int64_t width, std::int64_t* to) {
    with_width(width, [=]<std::int64_t bytes>() {
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = base + read_offset<bytes>(offsets + i * bytes) * unit;
    });
}

constexpr ScanLoops scan_loops() {
    return {count_differences, address_range, evenly_spaced, write_offsets, read_offsets};
}
