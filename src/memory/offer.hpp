// SPDX-License-Identifier: BSD-3-Clause
// Offers: where other processes of the node find a process's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "datamover/point.hpp"
#include "segment_pool.hpp"

namespace datamover::memory {

/// A place in the shared memory of a process.
struct SharedPlace {
    SegmentName name;
    std::int64_t offset_bytes = 0;  ///< in the segment
};

/// The place of an allocation, or of `begin` in it; none for private memory and for null.
std::optional<SharedPlace> place_of(const Allocation* allocation, const std::byte* begin = nullptr);

void put_offer(std::vector<std::int64_t>& words, const std::optional<SharedPlace>& place);
inline void put_offer(std::vector<std::int64_t>& words, const Allocation* allocation) {
    put_offer(words, place_of(allocation));
}
void put_offer(std::vector<std::int64_t>& words, const Point& point);

/// Reads words in the order in which they were put. Throws invalid_state where there are no more.
class OfferReader {
public:
    explicit OfferReader(std::span<const std::int64_t> words) : words_(words) {}

    std::int64_t next();
    Point point(int dims);
    std::optional<SharedPlace> shared_place();

private:
    std::span<const std::int64_t> words_;
};

}  // namespace datamover::memory
