// SPDX-License-Identifier: BSD-3-Clause
// Relations in C++: moves elements between addresses, without layouts.
// Run: ./relations
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <datamover/datamover.hpp>
#include <memory>
#include <string>
#include <vector>

#include "checked.hpp"

namespace {

using datamover::AddressBounds;
using datamover::AddressRelation;
using datamover::Side;

/// Copies every third of 300 elements to one of 100, in reverse order.
AddressRelation every_third_backwards() {
    std::vector<std::int64_t> from, to;
    for (std::int64_t i = 0; i < 100; ++i) {
        from.push_back(3 * i);
        to.push_back(99 - i);
    }
    return AddressRelation::from_pairs(from, to, sizeof(double), sizeof(double));
}

/// The same from axes, as layouts do: no element is listed.
AddressRelation from_axes() {
    const auto hundred =
        std::make_shared<datamover::AxisTable>(datamover::AxisTable::interval(0, 0, 100));
    datamover::Product product;
    product.destination_offset_bytes = 99 * sizeof(double);
    product.axes.push_back(datamover::ProductAxis{
        .table = hundred,
        .source_stride_bytes = 3 * sizeof(double),
        .destination_stride_bytes = -std::int64_t{sizeof(double)},
    });
    return AddressRelation::from_products({product}, sizeof(double), sizeof(double));
}

void copies(const AddressRelation& relation) {
    std::vector<double> source(300), destination(100), message(100);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<double>(i);
    relation.copy(source.data(), destination.data());
    expect(destination[99] == 0 && destination[0] == 297, "backwards");

    // One half packs a message, the other half unpacks it.
    relation.gather(source.data(), message.data());
    relation.scatter(message.data(), destination.data());
    expect(message[1] == 3 && destination[98] == 3, "by a message");

    // Checked once and used many times; added to the existing elements.
    const auto bytes_of = [](const std::vector<double>& v) {
        return AddressBounds{0, static_cast<std::int64_t>(v.size() * sizeof(double))};
    };
    const datamover::ElementUpdate sum{datamover::Op::add, datamover::ScalarType::float64,
                                       datamover::ScalarType::float64};
    const auto add = relation.bind(source.data(), bytes_of(source), destination.data(),
                                   bytes_of(destination), sum);
    add();
    expect(destination[98] == 6, "twice the element");
}

void encodings(const AddressRelation& relation) {
    for (const auto encoding :
         {datamover::Encoding::pairs, datamover::Encoding::blocks, datamover::Encoding::runs,
          datamover::Encoding::dictionary, datamover::Encoding::offsets}) {
        const AddressRelation same = relation.encode(encoding);
        expect(same.size() == relation.size(), "the same pairs");
        std::printf("%-10s %5lld bytes, run by %s\n", datamover::encoding_name(encoding),
                    static_cast<long long>(same.nbytes()), same.kernel().describe().c_str());
    }
    const auto there_and_back = AddressRelation::from_bytes(relation.to_bytes());
    expect(there_and_back.bounds(Side::destination).end_bytes == 800, "100 doubles");
    const auto sorted = relation.ordered_by_destination();
    expect(sorted.destination_contiguous(), "in the order of the destination");
    const auto joined = AddressRelation::join(relation.source_half(), relation.destination_half());
    expect(joined.size() == 100 && !joined.destinations_repeat(), "two halves make a whole");
}

/// To and from a process that does not have the relation.
void put_and_get(const AddressRelation& relation) {
    std::vector<double> source(300, 7), theirs(100), mine(100);
    const AddressBounds source_memory{0, 2400}, their_memory{0, 800};
    const auto message = datamover::put_message(relation, source.data());
    datamover::accept_put(message, theirs.data(), their_memory);
    expect(theirs[50] == 7, "put");

    const auto request = datamover::get_request(relation);
    const auto answer = datamover::answer_get(request, source.data(), source_memory);
    relation.scatter(answer.data(), mine.data());
    expect(mine[50] == 7, "get");
}

/// One side as an MPI datatype.
void as_a_datatype(const AddressRelation& relation) {
    std::vector<double> source(300, 5), received(100);
    MPI_Datatype every_third = datamover::relation_datatype(relation, Side::source, MPI_DOUBLE);
    MPI_Sendrecv(source.data(), 1, every_third, 0, 0, received.data(), 100, MPI_DOUBLE, 0, 0,
                 MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Type_free(&every_third);
    expect(received[99] == 5, "a message without packing");
}

/// The bytes of one side: for a program's own loops, or for system calls such as writev.
void taken_apart(const AddressRelation& relation) {
    std::int64_t elems = 0;
    relation.for_each_run([&](std::int64_t from, std::int64_t, std::int64_t count) {
        expect(from == 24 * elems, "every third double");
        elems += count;
    });
    std::vector<std::int64_t> from, to;
    relation.to_pairs(from, to);
    expect(elems == 100 && from[1] == 24 && to[1] == 8 * 98, "in bytes");
    const std::vector<double> source(300, 1);
    for (const datamover::MemoryPiece& piece : relation.source_pieces(source.data()))
        expect(piece.bytes == sizeof(double), "each by itself");

    const AddressRelation back = relation.reversed();
    expect(back.source_elem_bytes() == 8 && back.source_bounds().end_bytes == 800, "back");
    const AddressRelation twice = AddressRelation::concatenate(std::vector{relation, relation});
    expect(twice.size() == 200 && twice.destinations_repeat(), "every element arrives twice");
    expect(twice.ordered_by_source().half(Side::source).contiguous(Side::destination), "a message");
    try {
        relation.require_inside(Side::source, {0, 800}, "the source");
        expect(false, "it does not lie there");
    } catch (const datamover::Error& error) {
        expect(error.code() == datamover::ErrorCode::out_of_range, "said before it is read");
    }
}

/// Addresses in bytes, also before the base; packed and taken apart by copies that were checked
/// once.
void in_bytes() {
    const AddressRelation backwards =
        AddressRelation::from_byte_pairs({0, -8, -16}, {0, 8, 16}, 8, 8);
    expect(backwards.source_bounds().begin_bytes == -16 && !backwards.source_contiguous(), "down");
    expect(backwards.destination_contiguous() && backwards.destination_bounds().end_bytes == 24,
           "to the first three");
    backwards.check_expandable(1000);  // it does not have more elements than that
    const std::vector<double> source{1, 2, 3};
    std::vector<double> message(3), destination(3);
    const AddressBounds memory{-16, 8}, three{0, 24};
    const datamover::BoundCopy pack =
        backwards.bind_gather(&source[2], memory, message.data(), three);
    const datamover::BoundCopy unpack =
        backwards.bind_scatter(message.data(), three, destination.data(), three);
    pack(), unpack();
    expect(destination == std::vector<double>{3, 2, 1}, pack.describe().c_str());
    std::size_t bytes = 0;
    for (const auto& piece : backwards.destination_pieces(destination.data())) bytes += piece.bytes;
    expect(bytes == 3 * static_cast<std::size_t>(backwards.destination_elem_bytes()), "all");
}

/// The operations on arriving elements, by their names.
void updates(const AddressRelation& relation) {
    datamover::ElementUpdate update;
    expect(update.is_plain_copy(), "unless something else is said");
    update.op = datamover::op_from_name("max");
    update.source_type = update.destination_type = datamover::ScalarType::float64;
    expect(std::string(op_name(update.op)) == "max" && !update.is_plain_copy(), "the larger one");
    expect(scalar_bytes(update.source_type) == 8 &&
               std::string(scalar_name(update.source_type)) == "float64",
           "as NumPy calls it");
    const AddressRelation twice = AddressRelation::concatenate(std::vector{relation, relation});
    twice.require_unambiguous(update);  // in whichever order, the larger one stays
    try {
        twice.require_unambiguous({});
        expect(false, "one of two would be lost");
    } catch (const datamover::Error& error) {
        expect(error.code() == datamover::ErrorCode::invalid_argument, "said before it is copied");
    }
    const std::vector<double> source(300, 2);
    std::vector<double> destination(100, 1);
    const datamover::CopyKernel kernel = twice.kernel(update);
    kernel(source.data(), destination.data());
    expect(destination[7] == 2, kernel.describe().c_str());
}

/// Relations that are used repeatedly, within a memory limit; those of one operation (the hint) are
/// evicted together.
void kept_or_made_again() {
    datamover::RelationCache cache(1 << 20);
    const std::vector<std::int64_t> operation = datamover::words_of("transpose");
    for (int step = 0; step < 3; ++step)
        for (const std::int64_t peer : {0, 1}) {
            const std::int64_t key[] = {peer, 300};
            cache.get(key, every_third_backwards, operation).kept_kernel();
        }
    const datamover::RelationCacheStatistics statistics = cache.statistics();
    expect(statistics.misses == 2 && statistics.hits == 4, "made once for each peer");
    expect(cache.drop(operation) == 2 && cache.statistics().held_bytes == 0, "both are gone");
    cache.clear();             // or everything
    cache.set_limit(1 << 10);  // if memory is short
    expect(cache.statistics().limit_bytes == 1 << 10, "from now on");
}

/// Whether it is faster to store addresses than to compute them again: by the rates of a machine,
/// and for one relation by the cost of decoding.
void worth_keeping(const AddressRelation& relation) {
    const datamover::MachineRates machine{
        .instructions = 3e9, .read_contiguous = 2e9, .read_random = 2e8, .write_contiguous = 2e9};
    const datamover::LoopInstructions loops{
        .generate = 40, .recompute = 4, .decode = 4, .encode = 6};
    const datamover::RecomputeModel model(machine, loops);
    expect(model.decoding_pays() && model.break_even_uses() < 10, "after a few uses");
    expect(model.threshold_instructions() < 40 && model.ultimate_speedup() > 1, "for 40 of them");
    expect(model.amortised_seconds(1000) < model.recompute_seconds(), "in the long run");

    const datamover::EncodingChoice choice = explain_encoding(relation);
    for (const datamover::EncodingEstimate& estimate : choice.estimates)
        expect(estimate.nbytes > 0 && estimate.decode_seconds >= 0, "of every encoding");
    std::printf("kept as %s: %s\n", encoding_name(choice.chosen), choice.reason.c_str());
    const std::string name = encoding_name(choice.chosen);
    expect(datamover::encoding_from_name(name) == choice.chosen, "by its name");
    datamover::DecodingCosts costs = datamover::decoding_costs();
    costs.tolerated_slowness = 3;  // smaller relations, if memory is short
    set_decoding_costs(costs);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    for (const AddressRelation& relation : {every_third_backwards(), from_axes()}) {
        copies(relation);
        encodings(relation);
        put_and_get(relation);
        as_a_datatype(relation);
        taken_apart(relation);
        updates(relation);
        worth_keeping(relation);
    }
    in_bytes();
    kept_or_made_again();
    MPI_Finalize();
    return 0;
}
