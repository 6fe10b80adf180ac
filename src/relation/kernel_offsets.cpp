// SPDX-License-Identifier: BSD-3-Clause
// Moving elements while decoding chunks of short offsets.
#include <algorithm>
#include <array>
#include <cstring>

#include "copy_program.hpp"
#include "offsets.hpp"

namespace datamover {
namespace {

/// Addresses decoded at a time where elements are updated or of unusual size.
constexpr std::int64_t batch_elems = 128;
/// Elements that pass through a buffer at a time where neither side is even: gathered, then
/// scattered, they take two thirds of the time of single moves (measured).
constexpr std::int64_t staged_elems = 512;
constexpr std::int64_t widest_elem_bytes = 32;

class OffsetsStep final : public CopyStep {
public:
    OffsetsStep(const OffsetsStorage& offsets, const ElementMover& mover)
        : offsets_(offsets),
          mover_(mover),
          size_(mover.copies_bytes() ? listed_class(mover.source_elem_bytes()) : -1) {}

    void run(const char* source, char* destination) const override {
        for (const OffsetChunk& chunk : offsets_.chunks) {
            const OffsetSide& s = chunk.source;
            const OffsetSide& d = chunk.destination;
            if (size_ >= 0 && s.width != 0 && d.width == 0)
                gather(s, 0, chunk.elems, d.step, source, destination + d.base);
            else if (size_ >= 0 && s.width == 0 && d.width != 0)
                scatter(d, 0, chunk.elems, s.step, source + s.base, destination);
            else if (size_ >= 0 && s.width != 0)
                run_staged(chunk, source, destination);
            else
                run_batches(chunk, source, destination);
        }
    }
    std::string describe() const override { return "offsets, " + mover_.describe(); }

private:
    /// Elements [first, first + n) of a chunk to or from evenly spaced places.
    void gather(const OffsetSide& s, std::int64_t first, std::int64_t n, std::int64_t step,
                const char* source, char* packed) const {
        copy_loops().gather[size_](
            {offsets_.data.data() + s.at + first * s.width, s.width, offsets_.source_unit, step, n},
            source + s.base, packed);
    }
    void scatter(const OffsetSide& d, std::int64_t first, std::int64_t n, std::int64_t step,
                 const char* packed, char* destination) const {
        copy_loops().scatter[size_]({offsets_.data.data() + d.at + first * d.width, d.width,
                                     offsets_.destination_unit, step, n},
                                    packed, destination + d.base);
    }
    void run_staged(const OffsetChunk& chunk, const char* source, char* destination) const {
        alignas(64) char buffer[staged_elems * widest_elem_bytes];
        const std::int64_t elem = mover_.source_elem_bytes();
        for (std::int64_t i = 0; i < chunk.elems; i += staged_elems) {
            const std::int64_t n = std::min(staged_elems, chunk.elems - i);
            gather(chunk.source, i, n, elem, source, buffer);
            scatter(chunk.destination, i, n, elem, buffer, destination);
        }
    }
    void run_batches(const OffsetChunk& chunk, const char* source, char* destination) const {
        std::array<std::int64_t, batch_elems> s;
        std::array<std::int64_t, batch_elems> d;
        for (std::int64_t i = 0; i < chunk.elems; i += batch_elems) {
            const std::int64_t n = std::min(batch_elems, chunk.elems - i);
            read_addresses(offsets_, chunk.source, Side::source, i, n, s.data());
            read_addresses(offsets_, chunk.destination, Side::destination, i, n, d.data());
            move_batch(s.data(), d.data(), n, source, destination);
        }
    }
    void move_batch(const std::int64_t* s, const std::int64_t* d, std::int64_t n,
                    const char* source, char* destination) const {
        if (size_ >= 0) {
            copy_loops().pairs[size_](s, d, n, source, destination);
            return;
        }
        if (!mover_.copies_bytes()) {
            mover_.update_listed(source, s, destination, d, n);
            return;
        }
        const auto elem = static_cast<std::size_t>(mover_.source_elem_bytes());
        for (std::int64_t i = 0; i < n; ++i) std::memcpy(destination + d[i], source + s[i], elem);
    }

    const OffsetsStorage& offsets_;
    ElementMover mover_;
    int size_;
};

}  // namespace

void compile_offsets(const OffsetsStorage& storage, const ElementMover& mover, StepList& steps) {
    steps.push_back(std::make_unique<OffsetsStep>(storage, mover));
}

}  // namespace datamover
