// SPDX-License-Identifier: BSD-3-Clause
// Moving elements while decoding pairs, blocks, runs, dictionaries and offsets.
#include <algorithm>
#include <array>
#include <cstring>

#include "copy_program.hpp"
#include "geometry/make_error.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

/// Copies n bytes. Irregular relations mostly have rows of one or two elements, for which the C
/// library's call takes longer than the copy (measured: half the time).
void copy_bytes(char* d, const char* s, std::int64_t n) {
    constexpr std::int64_t word = 8;
    if (n < word || n > 2 * word) {
        std::memcpy(d, s, static_cast<std::size_t>(n));
        return;
    }
    std::uint64_t head = 0, tail = 0;
    std::memcpy(&head, s, word);
    std::memcpy(&tail, s + n - word, word);
    std::memcpy(d, &head, word);
    std::memcpy(d + n - word, &tail, word);
}

/// Moves elements between addresses that stand in lists, or in strided rows.
class DecodedMover {
public:
    explicit DecodedMover(const ElementMover& mover)
        : mover_(mover), elem_(mover.source_elem_bytes()) {
        if (!mover.copies_bytes()) return;
        if (const int size = size_class(elem_); size >= 0) row_ = copy_loops().row[size];
        listed_ = listed_class(elem_);
    }

    /// The class of elements that are copied and have loops between lists, or -1.
    int listed() const { return listed_; }
    std::int64_t elem_bytes() const { return elem_; }
    std::string describe() const { return mover_.describe(); }

    /// Rows of blocks, runs and dictionaries.
    template <class Storage>
    void move_rows(const Storage& storage, const char* source, char* destination) const {
        // Copies of its own: for all that the compiler knows, what is stored could be a member.
        const std::int64_t elem = elem_;
        const RowLoop row = row_;
        if (mover_.copies_bytes())
            for_each_row(storage, [=](const StridedRun& r) {
                copy_row(r, elem, row, source + r.start.source, destination + r.start.destination);
            });
        else
            for_each_row(storage, [=, this](const StridedRun& r) {
                mover_.update(source + r.start.source, r.step.source,
                              destination + r.start.destination, r.step.destination, r.elems);
            });
    }
    void move_listed(const std::int64_t* source_at, const std::int64_t* destination_at,
                     std::int64_t n, const char* source, char* destination) const {
        if (listed_ >= 0)
            copy_loops().pairs[listed_](source_at, destination_at, n, source, destination);
        else if (!mover_.copies_bytes())
            mover_.update_listed(source, source_at, destination, destination_at, n);
        else
            for (std::int64_t i = 0; i < n; ++i)
                std::memcpy(destination + destination_at[i], source + source_at[i],
                            static_cast<std::size_t>(elem_));
    }

private:
    static void copy_row(const StridedRun& r, std::int64_t elem, RowLoop row, const char* s,
                         char* d) {
        if (r.step.source == elem && r.step.destination == elem)
            copy_bytes(d, s, r.elems * elem);
        else if (row != nullptr)
            row(s, r.step.source, d, r.step.destination, r.elems);
        else
            for (std::int64_t i = 0; i < r.elems; ++i)
                std::memcpy(d + i * r.step.destination, s + i * r.step.source,
                            static_cast<std::size_t>(elem));
    }

    ElementMover mover_;
    std::int64_t elem_;
    RowLoop row_ = nullptr;
    int listed_ = -1;
};

void move_all(const PairsStorage& pairs, const DecodedMover& mover, const char* source,
              char* destination) {
    mover.move_listed(pairs.at.source.data(), pairs.at.destination.data(), pairs.elems, source,
                      destination);
}

/// Elements [first, first + n) of a chunk from their places to evenly spaced ones, or back.
template <Side listed>
void move_offsets(const OffsetsStorage& offsets, const OffsetChunk& chunk, std::int64_t first,
                  std::int64_t n, std::int64_t step, int size, const char* source,
                  char* destination) {
    const OffsetSide& own = chunk.side[listed];
    const OffsetRow row{offsets.data.data() + own.at + first * own.width, own.width,
                        offsets.unit[listed], step, n};
    if constexpr (listed == Side::source)
        copy_loops().gather[size](row, source + own.base, destination);
    else
        copy_loops().scatter[size](row, source, destination + own.base);
}

/// Moves a chunk through a buffer if neither side is even: gathered, then scattered, its elements
/// take two thirds of the time of single moves (measured).
void move_staged(const OffsetsStorage& offsets, const OffsetChunk& chunk, const DecodedMover& mover,
                 const char* source, char* destination) {
    constexpr std::int64_t staged_elems = 512, widest_elem_bytes = 32;
    alignas(64) char buffer[staged_elems * widest_elem_bytes];
    const std::int64_t elem = mover.elem_bytes();
    const int size = mover.listed();
    for (std::int64_t i = 0; i < chunk.elems; i += staged_elems) {
        const std::int64_t n = std::min(staged_elems, chunk.elems - i);
        move_offsets<Side::source>(offsets, chunk, i, n, elem, size, source, buffer);
        move_offsets<Side::destination>(offsets, chunk, i, n, elem, size, buffer, destination);
    }
}

/// If elements are updated or of unusual size, addresses are decoded in batches.
void move_batches(const OffsetsStorage& offsets, const OffsetChunk& chunk,
                  const DecodedMover& mover, const char* source, char* destination) {
    constexpr std::int64_t batch_elems = 128;
    PerSide<std::array<std::int64_t, batch_elems>> at;
    for (std::int64_t i = 0; i < chunk.elems; i += batch_elems) {
        const std::int64_t n = std::min(batch_elems, chunk.elems - i);
        for (const Side side : both_sides)
            offsets.read_addresses(chunk, side, i, n, at[side].data());
        mover.move_listed(at.source.data(), at.destination.data(), n, source, destination);
    }
}

void move_all(const OffsetsStorage& offsets, const DecodedMover& mover, const char* source,
              char* destination) {
    const int size = mover.listed();
    for (const OffsetChunk& chunk : offsets.chunks) {
        const auto& [s, d] = chunk.side;
        if (size < 0 || (s.width == 0 && d.width == 0))
            move_batches(offsets, chunk, mover, source, destination);
        else if (d.width == 0)
            move_offsets<Side::source>(offsets, chunk, 0, chunk.elems, d.step, size, source,
                                       destination + d.base);
        else if (s.width == 0)
            move_offsets<Side::destination>(offsets, chunk, 0, chunk.elems, s.step, size,
                                            source + s.base, destination);
        else
            move_staged(offsets, chunk, mover, source, destination);
    }
}

/// Of blocks, runs and dictionaries.
template <class Storage>
void move_all(const Storage& storage, const DecodedMover& mover, const char* source,
              char* destination) {
    mover.move_rows(storage, source, destination);
}

std::string name_of(const AddressRelation::Storage& storage) {
    const auto* dictionary = dynamic_cast<const DictionaryStorage*>(&storage);
    if (dictionary == nullptr) return encoding_name(storage.encoding);
    return concat("dictionary keys of ", 1 << dictionary->key_bits_log2, " bits");
}

template <class Storage>
class DecodingStep final : public CopyStep {
public:
    DecodingStep(const AddressRelation::Storage& storage, const ElementMover& mover)
        : storage_(static_cast<const Storage&>(storage)), mover_(mover) {}
    void run(const char* source, char* destination) const override {
        move_all(storage_, mover_, source, destination);
    }
    std::string describe() const override {
        return concat(name_of(storage_), ", ", mover_.describe());
    }

private:
    const Storage& storage_;
    DecodedMover mover_;
};

}  // namespace

std::unique_ptr<const CopyStep> decoding_step(const AddressRelation::Storage& storage,
                                              const ElementMover& mover) {
    switch (storage.encoding) {
        case Encoding::pairs:
            return std::make_unique<DecodingStep<PairsStorage>>(storage, mover);
        case Encoding::blocks:
            return std::make_unique<DecodingStep<BlocksStorage>>(storage, mover);
        case Encoding::runs:
            return std::make_unique<DecodingStep<RunsStorage>>(storage, mover);
        case Encoding::dictionary:
            return std::make_unique<DecodingStep<DictionaryStorage>>(storage, mover);
        case Encoding::offsets:
            return std::make_unique<DecodingStep<OffsetsStorage>>(storage, mover);
        case Encoding::product:
            break;
    }
    return nullptr;
}

}  // namespace datamover
