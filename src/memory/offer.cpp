// SPDX-License-Identifier: BSD-3-Clause
// Offers: where other processes of the node find a process's memory.
#include "offer.hpp"

#include "datamover/error.hpp"

namespace datamover::memory {

std::optional<SharedPlace> place_of(const Allocation* allocation, const std::byte* begin) {
    if (!allocation || !allocation->segment) return {};
    const std::int64_t skipped_bytes = begin ? begin - allocation->data : 0;
    return SharedPlace{allocation->segment->name(),
                       allocation->segment_offset_bytes + skipped_bytes};
}

void put_offer(std::vector<std::int64_t>& words, const std::optional<SharedPlace>& place) {
    words.push_back(place ? 1 : 0);
    if (!place) return;
    const SegmentName& n = place->name;
    words.insert(words.end(),
                 {n.pid, n.fd, n.device, n.inode, n.offset_bytes, n.bytes, place->offset_bytes});
}

void put_offer(std::vector<std::int64_t>& words, const Point& point) {
    for (int d = 0; d < point.dims(); ++d) words.push_back(point[d]);
}

std::int64_t OfferReader::next() {
    if (words_.empty())
        throw Error(
            ErrorCode::invalid_state,
            "internal error: the memory description of a process of this node is incomplete");
    const std::int64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
}

Point OfferReader::point(int dims) {
    Point p = Point::filled(dims, 0);
    for (int d = 0; d < dims; ++d) p[d] = next();
    return p;
}

std::optional<SharedPlace> OfferReader::shared_place() {
    if (next() == 0) return {};
    SharedPlace place;
    SegmentName& n = place.name;
    for (std::int64_t* word :
         {&n.pid, &n.fd, &n.device, &n.inode, &n.offset_bytes, &n.bytes, &place.offset_bytes})
        *word = next();
    return place;
}

}  // namespace datamover::memory
