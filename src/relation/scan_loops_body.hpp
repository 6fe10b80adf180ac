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

template <class T>
void write_narrow(const std::int64_t* a, std::int64_t n, std::int64_t low, int shift,
                  unsigned char* to) {
    for (std::int64_t i = 0; i < n; ++i) {
        const T offset = static_cast<T>((a[i] - low) >> shift);
        __builtin_memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &offset, sizeof(T));
    }
}

/// Each writes four bytes, the last of which the next one overwrites.
inline void write_three_bytes(const std::int64_t* a, std::int64_t n, std::int64_t low, int shift,
                              unsigned char* to) {
    for (std::int64_t i = 0; i < n; ++i) {
        const auto offset = static_cast<std::uint32_t>((a[i] - low) >> shift);
        __builtin_memcpy(to + 3 * i, &offset, sizeof offset);
    }
}

inline void write_offsets(const std::int64_t* a, std::int64_t n, std::int64_t low, int shift,
                          std::int64_t width, unsigned char* to) {
    switch (width) {
        case 1:
            return write_narrow<std::uint8_t>(a, n, low, shift, to);
        case 2:
            return write_narrow<std::uint16_t>(a, n, low, shift, to);
        case 3:
            return write_three_bytes(a, n, low, shift, to);
        case 4:
            return write_narrow<std::uint32_t>(a, n, low, shift, to);
        default:
            return write_narrow<std::uint64_t>(a, n, low, shift, to);
    }
}

constexpr ScanLoops scan_loops() {
    return {count_differences, address_range, evenly_spaced, write_offsets};
}
