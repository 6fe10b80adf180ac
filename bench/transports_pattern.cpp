// SPDX-License-Identifier: BSD-3-Clause
// Pattern of a case, both as plans of the library and as hand-written transfers.
//
// In a ping-pong, each process of the lower half sends to one of the upper half, which then sends
// its own data back.
#include "transports_pattern.hpp"

#include <mpi.h>

#include <array>
#include <istream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "datamover/floor_plan.hpp"
#include "datamover/index_list.hpp"
#include "redistribute_plan.hpp"

namespace bench {
namespace {

using datamover::FloorPlan;
using datamover::IndexList;
using datamover::MotionPlan;
using datamover::Point;
using datamover::Region;

Extents read_numbers(std::istream& in, std::size_t count) {
    Extents numbers(count);
    for (std::int64_t& n : numbers) in >> n;
    return numbers;
}

// Ping-pongs.

/// Who sends to whom in a step of a ping-pong.
struct PingPong {
    int processes;

    int half() const { return processes / 2; }
    int sender(std::size_t step, int pair) const { return step == 0 ? pair : pair + half(); }
    int receiver(std::size_t step, int pair) const { return sender(1 - step, pair); }

    /// The transfers of a process, of which `pieces` says what is sent and what is received.
    template <class Pieces>
    std::vector<Transfer> transfers(std::size_t step, int rank, const Pieces& pieces) const {
        for (int pair = 0; pair < half(); ++pair) {
            const int from = sender(step, pair), to = receiver(step, pair);
            if (rank == from) return {{to, pieces.sent, {}}};
            if (rank == to) return {{from, {}, pieces.received}};
        }
        return {};
    }
};

struct PingPongPieces {
    std::vector<Piece> sent, received;
};

/// The same section of an array at the sender's and at the receiver's.
struct Box {
    std::int64_t elem_bytes = 8;
    Extents shape, begin, extent;
};

MotionPlan box_plan(const Box& box, const PingPong& who, std::size_t step) {
    std::vector<Region> regions, sections;
    datamover::Map senders, receivers;
    for (int pair = 0; pair < who.half(); ++pair) {
        Extents lo(box.shape.size(), 0);
        lo[0] = pair * box.shape[0];
        const Point corner = point_of(lo), begin = corner + point_of(box.begin);
        regions.emplace_back(corner, corner + point_of(box.shape));
        sections.emplace_back(begin, begin + point_of(box.extent));
        senders.push_back(who.sender(step, pair));
        receivers.push_back(who.receiver(step, pair));
    }
    MotionPlan plan(FloorPlan(regions, senders, who.processes),
                    FloorPlan(regions, receivers, who.processes));
    for (int pair = 0; pair < who.half(); ++pair) {
        const Region& section = sections[static_cast<std::size_t>(pair)];
        plan.add_section(pair, section, pair, section);
    }
    return plan;
}

Pattern boxes(std::istream& in, int processes) {
    Pattern pattern;
    std::size_t count = 0;
    in >> pattern.name >> count;
    const PingPong who{processes};
    PingPongPieces pieces;
    pattern.steps.resize(2);
    for (std::size_t a = 0; in && a < count; ++a) {
        Box box;
        std::size_t dims = 0;
        in >> box.elem_bytes >> dims;
        box.shape = read_numbers(in, dims);
        box.begin = read_numbers(in, dims);
        box.extent = read_numbers(in, dims);
        for (std::size_t step = 0; step < 2; ++step)
            pattern.steps[step].push_back({box_plan(box, who, step), box.elem_bytes});
        pieces.sent.push_back(box_piece(a, box.elem_bytes, box.shape, box.begin, box.extent));
    }
    pieces.received = pieces.sent;
    pattern.transfers = [=](std::size_t step, int rank) {
        return who.transfers(step, rank, pieces);
    };
    return pattern;
}

/// Elements drawn from an array of `memory`, which go to the same places, or behind all of them.
struct Drawn {
    std::int64_t elem_bytes = 8, memory = 0, count = 0;
    bool behind = false;
    Extents places;  ///< in the order in which they are sent

    std::int64_t received_elems() const { return behind ? memory + count : memory; }
    std::int64_t received_at(std::int64_t i) const {
        return behind ? memory + i : places[static_cast<std::size_t>(i)];
    }
};

/// The same for arrays of the same size: the fields of the same atoms.
Extents draw_places(std::int64_t memory, std::int64_t count) {
    std::mt19937_64 random(1);
    Extents places(static_cast<std::size_t>(memory));
    std::iota(places.begin(), places.end(), 0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        std::swap(places[i], places[i + random() % (places.size() - i)]);
    places.resize(static_cast<std::size_t>(count));
    return places;
}

/// Elements that move have the same index on both sides, all others one that nobody else has.
MotionPlan drawn_plan(const Drawn& drawn, const PingPong& who, std::size_t step) {
    const std::int64_t moved = who.half() * drawn.count;
    const std::int64_t sent_elems = drawn.memory, received_elems = drawn.received_elems();
    Extents source, destination;
    Extents source_offsets{0}, destination_offsets{0};
    for (int rank = 0; rank < who.processes; ++rank) {
        for (int pair = 0; pair < who.half(); ++pair) {
            const auto fill = [&](Extents& list, std::int64_t elems, std::int64_t other,
                                  auto&& place) {
                const std::size_t first = list.size();
                for (std::int64_t i = 0; i < elems; ++i)
                    list.push_back(moved + other + pair * elems + i);
                for (std::int64_t i = 0; i < drawn.count; ++i)
                    list[first + static_cast<std::size_t>(place(i))] = pair * drawn.count + i;
            };
            if (rank == who.sender(step, pair))
                fill(source, sent_elems, 0,
                     [&](std::int64_t i) { return drawn.places[static_cast<std::size_t>(i)]; });
            if (rank == who.receiver(step, pair))
                fill(destination, received_elems, who.half() * sent_elems,
                     [&](std::int64_t i) { return drawn.received_at(i); });
        }
        source_offsets.push_back(static_cast<std::int64_t>(source.size()));
        destination_offsets.push_back(static_cast<std::int64_t>(destination.size()));
    }
    const Point shape{moved + who.half() * (sent_elems + received_elems)};
    return datamover::redistribute(IndexList(shape, source_offsets, source),
                                   IndexList(shape, destination_offsets, destination), {}, true);
}

Pattern lists(std::istream& in, int processes) {
    Pattern pattern;
    std::size_t count = 0;
    in >> pattern.name >> count;
    const PingPong who{processes};
    PingPongPieces pieces;
    pattern.steps.resize(2);
    for (std::size_t a = 0; in && a < count; ++a) {
        Drawn drawn;
        in >> drawn.elem_bytes >> drawn.memory >> drawn.count >> drawn.behind;
        drawn.places = draw_places(drawn.memory, drawn.count);
        for (std::size_t step = 0; step < 2; ++step)
            pattern.steps[step].push_back({drawn_plan(drawn, who, step), drawn.elem_bytes});
        Piece sent;
        sent.array = a;
        sent.elem_bytes = sent.run_bytes = drawn.elem_bytes;
        Piece received = sent;
        for (const std::int64_t place : drawn.places)
            sent.listed.push_back(place * drawn.elem_bytes);
        if (drawn.behind) {
            received.outer = {drawn.memory * drawn.elem_bytes};
            received.run_bytes = drawn.count * drawn.elem_bytes;
        } else {
            received.listed = sent.listed;
        }
        pieces.sent.push_back(std::move(sent));
        pieces.received.push_back(std::move(received));
    }
    pattern.transfers = [=](std::size_t step, int rank) {
        return who.transfers(step, rank, pieces);
    };
    return pattern;
}

// Exchanges between all processes.

/// One block of edge³ doubles per process in a periodic box, with 26 neighbours.
struct CubeHalo {
    std::array<int, 3> grid{0, 0, 0};
    std::int64_t edge = 0, width = 0;

    std::int64_t stored() const { return edge + 2 * width; }
    int neighbour(int rank, const std::array<int, 3>& towards) const {
        int other = 0,
            place[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
        for (std::size_t d = 0; d < 3; ++d)
            other = other * grid[d] + (place[d] + towards[d] + grid[d]) % grid[d];
        return other;
    }
    /// What lies at a side within the block, or beside it.
    Piece side(const std::array<int, 3>& towards, bool within) const {
        Extents begin, extent;
        for (const int t : towards) {
            const std::int64_t low = within ? width : 0;
            const std::int64_t high = within ? edge : edge + width;
            begin.push_back(t == 0 ? width : (t < 0 ? low : high));
            extent.push_back(t == 0 ? edge : width);
        }
        return box_piece(0, 8, Extents(3, stored()), begin, extent);
    }
};

Transfer& with_peer(std::vector<Transfer>& transfers, int peer) {
    for (Transfer& t : transfers)
        if (t.peer == peer) return t;
    return transfers.emplace_back(Transfer{peer, {}, {}});
}

/// By directions, as the sender sees them: the same order on both sides of a pair.
std::vector<Transfer> halo_transfers(const CubeHalo& halo, int rank) {
    std::vector<Transfer> transfers;
    for (int direction = 0; direction < 27; ++direction) {
        const std::array<int, 3> towards{direction / 9 - 1, direction / 3 % 3 - 1,
                                         direction % 3 - 1};
        const std::array<int, 3> back{-towards[0], -towards[1], -towards[2]};
        if (towards == back) continue;
        with_peer(transfers, halo.neighbour(rank, towards))
            .sent.push_back(halo.side(towards, true));
        with_peer(transfers, halo.neighbour(rank, back)).received.push_back(halo.side(back, false));
    }
    return transfers;
}

Pattern halo(std::istream& in, int processes) {
    Pattern pattern;
    CubeHalo halo;
    in >> pattern.name >> halo.edge >> halo.width;
    MPI_Dims_create(processes, 3, halo.grid.data());
    Extents grid(halo.grid.begin(), halo.grid.end()), extents;
    for (const std::int64_t g : grid) extents.push_back(g * halo.edge);
    const Region domain = Region::from_shape(point_of(extents));
    const FloorPlan blocks = FloorPlan::uniform(domain, point_of(grid), processes);
    const Point width = Point::filled(3, halo.width);
    ArrayMotion motion{datamover::halo(blocks, width, width, domain)};
    motion.ghost = width;
    motion.in_place = true;
    pattern.steps = {{motion}};
    pattern.transfers = [halo](std::size_t, int rank) { return halo_transfers(halo, rank); };
    return pattern;
}

/// A square matrix by rows, transposed.
struct Transpose {
    std::int64_t n = 0, elem_bytes = 16;
    int processes = 1;

    std::int64_t begin(int rank) const {
        const std::int64_t share = (n + processes - 1) / processes;
        return std::min(n, share * rank);
    }
    std::int64_t rows(int rank) const { return begin(rank + 1) - begin(rank); }
};

std::vector<Transfer> transpose_transfers(const Transpose& t, int rank) {
    std::vector<Transfer> transfers;
    const std::int64_t line = t.n * t.elem_bytes, mine = t.rows(rank);
    for (int peer = 0; peer < t.processes; ++peer) {
        const std::int64_t theirs = t.rows(peer);
        if (mine == 0 || theirs == 0) continue;
        Piece sent;
        sent.elem_bytes = sent.run_bytes = t.elem_bytes;
        sent.outer = {t.begin(peer) * t.elem_bytes};
        Piece received = sent;
        sent.rows = theirs;
        sent.row_step = t.elem_bytes;
        sent.runs = mine;
        sent.run_step = line;
        received.rows = mine;
        received.row_step = line;
        received.run_bytes = theirs * t.elem_bytes;
        transfers.push_back({peer, {sent}, {received}});
    }
    return transfers;
}

Pattern transpose(std::istream& in, int processes) {
    Pattern pattern;
    Transpose t;
    t.processes = processes;
    in >> pattern.name >> t.n >> t.elem_bytes;
    const datamover::BlockCyclic rows(Point{t.n, t.n}, "(block, *)", processes);
    pattern.steps = {{{datamover::redistribute(rows, rows, {1, 0}), t.elem_bytes}}};
    pattern.transfers = [t](std::size_t, int rank) { return transpose_transfers(t, rank); };
    return pattern;
}

/// Offsets of all positions along a dimension, on one side.
Extents offsets_along(const PairAxis& axis, bool source) {
    Extents offsets;
    const std::int64_t step = 8 * (source ? axis.source_stride : axis.destination_stride);
    for (const Run& r : axis.runs)
        for (std::int64_t x = 0; x < r.length; ++x)
            offsets.push_back(((source ? r.source : r.destination) + x) * step);
    return offsets;
}

/// The step between equally spaced offsets; nothing where they are not.
std::optional<std::int64_t> even_step(const Extents& offsets) {
    const std::int64_t step = offsets.size() > 1 ? offsets[1] - offsets[0] : 0;
    for (std::size_t i = 1; i < offsets.size(); ++i)
        if (offsets[i] - offsets[i - 1] != step) return {};
    return step;
}

void set_row(Piece& piece, const PairAxis& axis, bool source) {
    Extents lengths;
    if ((source ? axis.source_stride : axis.destination_stride) == 1) {
        for (const Run& r : axis.runs) {
            piece.listed.push_back(8 * (source ? r.source : r.destination));
            lengths.push_back(8 * r.length);
        }
    } else {
        piece.listed = offsets_along(axis, source);
        lengths.assign(piece.listed.size(), 8);
    }
    piece.run_bytes = lengths[0];
    if (even_step(lengths) != 0) {
        piece.lengths = lengths;
    } else if (const auto step = even_step(piece.listed)) {
        piece.runs = static_cast<std::int64_t>(piece.listed.size());
        piece.run_step = *step;
        piece.outer = {piece.listed[0]};
        piece.listed.clear();
    }
}

/// Loops over the dimensions in the destination's order, on either side.
Piece redistributed_piece(std::vector<PairAxis> axes, bool source) {
    Piece piece;
    set_row(piece, axes.back(), source);
    axes.pop_back();
    while (!axes.empty()) {
        const Extents offsets = offsets_along(axes.back(), source);
        const auto step = even_step(offsets);
        axes.pop_back();
        if (piece.rows == 1 && piece.outer.size() == 1 && step) {
            piece.rows = static_cast<std::int64_t>(offsets.size());
            piece.row_step = *step;
            piece.outer[0] += offsets[0];
            continue;
        }
        Extents wider;
        for (const std::int64_t slow : offsets)
            for (const std::int64_t fast : piece.outer) wider.push_back(slow + fast);
        piece.outer = std::move(wider);
    }
    return piece;
}

Pattern redistribution(std::istream& in, int processes) {
    const auto c = read_case(in);
    if (!c) throw std::runtime_error("a redistribution is cut off");
    Pattern pattern;
    pattern.name = c->name;
    ArrayMotion motion{plan_of(*c, processes)};
    if (c->column_major) motion.order = datamover::ElementOrder::column_major;
    pattern.steps = {{motion}};
    pattern.transfers = [c, processes](std::size_t, int rank) {
        std::vector<Transfer> transfers;
        for (int peer = 0; peer < processes; ++peer) {
            const auto to = pair_axes(*c, rank, peer), from = pair_axes(*c, peer, rank);
            if (!to.empty())
                with_peer(transfers, peer).sent.push_back(redistributed_piece(to, true));
            if (!from.empty())
                with_peer(transfers, peer).received.push_back(redistributed_piece(from, false));
        }
        return transfers;
    };
    return pattern;
}

}  // namespace

std::optional<Pattern> read_pattern(std::istream& in, int processes) {
    using Read = Pattern (*)(std::istream&, int);
    const std::pair<const char*, Read> kinds[] = {{"boxes", boxes},
                                                  {"lists", lists},
                                                  {"halo", halo},
                                                  {"transpose", transpose},
                                                  {"redistribute", redistribution}};
    std::string word;
    if (!(in >> word)) return {};
    for (const auto& [kind, read] : kinds) {
        if (word != kind) continue;
        Pattern pattern = read(in, processes);
        if (!in) throw std::runtime_error("case " + pattern.name + " is cut off");
        return pattern;
    }
    throw std::runtime_error("there is no kind of case \"" + word + '"');
}

}  // namespace bench
