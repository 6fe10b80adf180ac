// SPDX-License-Identifier: BSD-3-Clause
// The order in which a migration delivered its elements.
#include "migration_state.hpp"

#include <algorithm>
#include <numeric>

#include "methods.hpp"

namespace datamover::distribute {
namespace {

/// Where an element comes from.
struct Label {
    std::int64_t source = 0, elem = 0;
    auto operator<=>(const Label&) const = default;
};

/// The labels of what arrives, in the order of a delivery. Collective.
std::vector<Label> delivered(State& s, NodeSlot& slot, const Delivery& how) {
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(Label));
    const Method& method = *find_method(how.method);
    const auto data_of = [](std::vector<Label>& labels) {
        return reinterpret_cast<std::byte*>(labels.data());
    };
    std::vector<Label> labels(static_cast<std::size_t>(
        how.in_place ? std::max({how.capacity_elems, s.elems, s.received()}) : s.elems));
    for (std::int64_t i = 0; i < s.elems; ++i) labels[static_cast<std::size_t>(i)] = {s.rank(), i};
    if (how.in_place) {
        exchange(method, s, slot, {data_of(labels), bytes, how.capacity_elems, how.scratch_elems},
                 false);
        labels.resize(static_cast<std::size_t>(s.received()));
        return labels;
    }
    std::vector<Label> result(static_cast<std::size_t>(s.received()));
    const ElementColumn column{labels.data(), bytes, bytes};
    const ElementBuffer buffer{data_of(result), s.received() * bytes, {}};
    move(method, s, slot, {{&column, 1}, {&buffer, 1}}, false);
    return result;
}

/// Where the label that comes first in stable order lies, and so on.
std::vector<std::int64_t> places_of(const std::vector<Label>& labels) {
    std::vector<std::int64_t> places(labels.size());
    std::iota(places.begin(), places.end(), std::int64_t{0});
    std::ranges::sort(places, {},
                      [&](std::int64_t i) { return labels[static_cast<std::size_t>(i)]; });
    return places;
}

}  // namespace

void ArrivalOrders::record(ArrivedBy by, const Delivery& delivery) {
    for (const std::optional<Delivery>& last : {move_, in_place_})
        differ_ = differ_ || (last && *last != delivery);
    (by == ArrivedBy::move_in_place ? in_place_ : move_) = delivery;
}

Delivery ArrivalOrders::chosen(ArrivedBy by) const {
    if (by == ArrivedBy::any && differ_)
        throw Error(ErrorCode::invalid_state,
                    "this migration has delivered elements in different orders; say by which "
                    "call the values that go back had arrived, move or move_in_place");
    const bool in_place = by == ArrivedBy::move_in_place || (by == ArrivedBy::any && !move_);
    return (in_place ? in_place_ : move_).value_or(Delivery{});
}

const std::vector<std::int64_t>& ArrivalOrders::places(State& s, NodeSlot& slot,
                                                       const Delivery& delivery) {
    if (known_ == delivery) return places_;
    places_ = {};
    known_ = {};
    if (delivery.method.empty()) return places_;
    // All have agreed to go on: who has no memory for it does not leave the others waiting.
    propagating_errors(s, [&] { places_ = places_of(delivered(s, slot, delivery)); });
    known_ = delivery;
    return places_;
}

}  // namespace datamover::distribute
