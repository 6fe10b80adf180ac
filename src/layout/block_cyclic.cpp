// SPDX-License-Identifier: BSD-3-Clause
// Block-cyclic layouts.
#include "datamover/block_cyclic.hpp"

#include <algorithm>
#include <charconv>

#include "bounds.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"

namespace datamover {
namespace {

template <class... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
    throw make_error(ErrorCode::invalid_argument, parts...);
}

std::string at_dimension(int d) {
    return concat(" in dimension ", d);
}

/// The prime factors of n, largest first.
std::vector<std::int64_t> prime_factors(std::int64_t n) {
    std::vector<std::int64_t> factors;
    for (std::int64_t p = 2; p <= n / p; ++p)
        for (; n % p == 0; n /= p) factors.push_back(p);
    if (n > 1) factors.push_back(n);
    std::ranges::reverse(factors);
    return factors;
}

/// Deals the processes to the distributed dimensions so that local extents stay near to each other.
Point chosen_grid(const Point& shape, const std::vector<AxisDistribution>& axes,
                  std::int64_t nprocs) {
    Point grid = Point::filled(shape.dims(), 1);
    const bool any = std::ranges::any_of(axes, [](const AxisDistribution& a) {
        return a.kind != AxisDistribution::Kind::collapsed;
    });
    if (!any) return grid;
    for (const std::int64_t factor : prime_factors(nprocs)) {
        int best = -1;
        for (int d = 0; d < shape.dims(); ++d) {
            if (axes[static_cast<std::size_t>(d)].kind == AxisDistribution::Kind::collapsed)
                continue;
            if (best < 0 || shape[d] / grid[d] > shape[best] / grid[best]) best = d;
        }
        grid[best] *= factor;
    }
    return grid;
}

Point checked_grid(const Point& shape, const std::vector<AxisDistribution>& axes,
                   const std::vector<std::int64_t>& given, std::int64_t nprocs) {
    if (static_cast<int>(given.size()) != shape.dims())
        invalid("grid has ", given.size(), " entries, the shape has ", shape.dims(), " dimensions");
    const Point grid{std::span<const std::int64_t>(given)};
    for (int d = 0; d < grid.dims(); ++d) {
        if (grid[d] < 1) invalid("grid extent ", grid[d], at_dimension(d), " is not positive");
        if (axes[static_cast<std::size_t>(d)].kind == AxisDistribution::Kind::collapsed &&
            grid[d] != 1)
            invalid("grid extent is ", grid[d], at_dimension(d),
                    ", which is not distributed (*): it must be 1");
    }
    if (grid.product() > nprocs)
        invalid("grid ", grid, " needs ", grid.product(), " processes, there are ", nprocs,
                " for it");
    return grid;
}

/// How many of the processes hold one of the copies.
std::int64_t processes_per_replica(std::int64_t processes, std::int64_t replicas) {
    if (replicas < 1 || replicas > processes)
        invalid("there are ", replicas, " replicas for ", processes,
                " processes: there must be at least 1, and a process for each");
    return processes / replicas;
}

Point block_sizes(const Point& shape, const Point& grid,
                  const std::vector<AxisDistribution>& axes) {
    Point block = shape;
    for (int d = 0; d < shape.dims(); ++d) {
        const AxisDistribution& a = axes[static_cast<std::size_t>(d)];
        const std::int64_t longest = std::max<std::int64_t>(shape[d], 1);
        const std::int64_t even = geometry::divide_up(longest, grid[d]);
        block[d] = longest;
        if (a.kind == AxisDistribution::Kind::block) {
            block[d] = std::min(a.block > 0 ? a.block : even, longest);
            if (block[d] < even)
                invalid("block(", block[d], ")", at_dimension(d), " on ", grid[d],
                        " processes covers less than the extent ", shape[d],
                        ": it must be at least ", even);
        } else if (a.kind == AxisDistribution::Kind::cyclic) {
            block[d] = std::min(a.block > 0 ? a.block : 1, longest);
        }
    }
    return block;
}

std::string without_spaces(const std::string& text) {
    std::string s;
    for (const char c : text)
        if (c != ' ' && c != '\t')
            s += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return s;
}

AxisDistribution parse_axis(const std::string& word, const std::string& text) {
    using Kind = AxisDistribution::Kind;
    if (word == "*") return {Kind::collapsed, 0};
    const std::size_t open = word.find('(');
    const std::string name = word.substr(0, open);
    if (name != "block" && name != "cyclic")
        invalid("'" + word + "' in distribution \"" + text +
                "\" is not block, cyclic, cyclic(k) or *");
    const Kind kind = name == "block" ? Kind::block : Kind::cyclic;
    if (open == std::string::npos) return {kind, 0};
    const std::string digits = word.substr(open + 1, word.size() - open - 2);
    const char* end = digits.data() + digits.size();
    std::int64_t block = 0;
    const auto read = std::from_chars(digits.data(), end, block);
    if (read.ec == std::errc::result_out_of_range)
        invalid("block size in '" + word + "' of distribution \"" + text +
                "\" does not fit 63 bits");
    if (read.ec != std::errc{} || read.ptr != end || word.back() != ')' || block < 1)
        invalid("block size in '" + word + "' of distribution \"" + text +
                "\" is not a positive integer");
    return {kind, block};
}

}  // namespace

std::vector<AxisDistribution> parse_distribution(const std::string& text) {
    std::string s = without_spaces(text);
    if (std::ranges::count(s, '(') != std::ranges::count(s, ')'))
        invalid("unbalanced parentheses in distribution \"" + text + "\"");
    if (s.size() >= 2 && s.front() == '(' && s.back() == ')') s = s.substr(1, s.size() - 2);
    std::vector<AxisDistribution> axes;
    for (std::size_t begin = 0; begin <= s.size();) {
        const std::size_t end = std::min(s.find(',', begin), s.size());
        axes.push_back(parse_axis(s.substr(begin, end - begin), text));
        begin = end + 1;
    }
    return axes;
}

BlockCyclic::BlockCyclic(const Point& shape, const std::string& distribution, std::int64_t nprocs,
                         const BlockCyclicOptions& options)
    : shape_(shape), distribution_(distribution) {
    layout::checked_elems(shape, "block-cyclic");
    layout::check_nprocs(nprocs);
    const auto axes = parse_distribution(distribution);
    if (static_cast<int>(axes.size()) != shape.dims())
        invalid("distribution \"", distribution, "\" has ", axes.size(),
                axes.size() == 1 ? " dimension" : " dimensions", ", shape ", shape, " has ",
                shape.dims());
    const std::int64_t active = processes_per_replica(
        options.ranks.empty() ? nprocs : std::ssize(options.ranks), options.replicas);
    const Point grid = options.grid ? checked_grid(shape, axes, *options.grid, active)
                                    : chosen_grid(shape, axes, active);
    block_ = block_sizes(shape, grid, axes);
    first_process_ = Point::filled(shape.dims(), 0);
    if (!options.first_process.empty()) {
        if (static_cast<int>(options.first_process.size()) != shape.dims())
            invalid("first_process has ", options.first_process.size(), " entries, the shape has ",
                    shape.dims(), " dimensions");
        first_process_ = Point{std::span<const std::int64_t>(options.first_process)};
        for (int d = 0; d < shape.dims(); ++d)
            if (first_process_[d] < 0 || first_process_[d] >= grid[d])
                invalid("first_process ", first_process_[d], at_dimension(d),
                        " is not a coordinate of the grid ", grid);
    }
    const std::int64_t blocks = grid.product() * options.replicas;
    if (!options.ranks.empty() && std::ssize(options.ranks) != blocks)
        invalid("ranks has ", options.ranks.size(), " entries, the grid ", grid, " of ",
                options.replicas, " replicas has ", blocks, " positions");
    static_cast<BlockGrid&>(*this) = {{nprocs, blocks, options.ranks, "ranks"},
                                      grid,
                                      options.column_major_grid,
                                      options.replicas};
}

BlockCyclic BlockCyclic::cyclic(const Point& shape, const Point& block, const Point& grid) {
    if (block.dims() != shape.dims() || grid.dims() != shape.dims())
        throw make_error(ErrorCode::mismatch, "block ", block, " and grid ", grid,
                         " must have the ", shape.dims(), " dimensions of the shape ", shape);
    std::string distribution;
    BlockCyclicOptions options{.grid = std::vector<std::int64_t>()};
    for (int d = 0; d < shape.dims(); ++d) {
        distribution += concat(d == 0 ? "(cyclic(" : ", cyclic(", block[d], ")");
        options.grid->push_back(grid[d]);
    }
    return {shape, distribution + ")", grid.product(), options};
}

AxisSet BlockCyclic::axis_set(int d, std::int64_t coordinate) const {
    layout::check_number("dimension", d, dims());
    layout::check_number("grid coordinate", coordinate, grid()[d]);
    const std::int64_t n = shape_[d], block = block_[d];
    if (grid()[d] == 1) return AxisSet::interval(0, n);
    const std::int64_t position = (coordinate - first_process_[d] + grid()[d]) % grid()[d];
    if (position > (n - 1) / block) return AxisSet::interval(n, n);
    const std::int64_t first = position * block;
    // If the period does not fit in an integer, the array has no second round of blocks.
    std::int64_t period = 0;
    if (__builtin_mul_overflow(block, grid()[d], &period))
        return AxisSet::interval(first, n - first > block ? first + block : n);
    return {first, block, period, n};
}

bool BlockCyclic::holds_intervals(int d) const {
    layout::check_number("dimension", d, dims());
    return grid()[d] == 1 || (shape_[d] - 1) / block_[d] < grid()[d];
}

Point BlockCyclic::block_extents(std::int64_t block) const {
    const Point c = grid_coordinates(block);
    Point extents = shape_;
    for (int d = 0; d < dims(); ++d) extents[d] = axis_set(d, c[d]).size();
    return extents;
}

Point BlockCyclic::local_shape(std::int64_t rank) const {
    const std::int64_t block = block_of(rank);
    return block < 0 ? Point::filled(dims(), 0) : block_extents(block);
}

std::int64_t BlockCyclic::coordinate_of_index(int d, std::int64_t i) const {
    layout::check_number("dimension", d, dims());
    layout::check_number("index", i, shape_[d]);
    return grid()[d] == 1 ? 0 : (i / block_[d] + first_process_[d]) % grid()[d];
}

namespace {

void check_index(const Point& index, const Point& shape) {
    if (index.dims() != shape.dims() || !Region::from_shape(shape).contains(index))
        throw make_error(ErrorCode::out_of_range, "index ", index, " is not inside shape ", shape);
}

}  // namespace

bool BlockCyclic::operator==(const BlockCyclic& other) const {
    return BlockGrid::operator==(other) && shape_ == other.shape_ && block_ == other.block_ &&
           first_process_ == other.first_process_;
}

std::int64_t BlockCyclic::digest() const {
    geometry::WordDigest digest;
    for (const Point& point : {shape_, grid(), block_, first_process_})
        digest.put_all(point.to_vector());
    for (const std::int64_t word : {nprocs(), replicas(), std::int64_t{column_major_grid()}})
        digest.put(word);
    digest.put_all(ranks());
    return digest.value();
}

std::int64_t BlockCyclic::owner_of(const Point& index) const {
    check_index(index, shape_);
    Point c = index;
    for (int d = 0; d < dims(); ++d) c[d] = coordinate_of_index(d, index[d]);
    return owner(block_at(c));
}

Point BlockCyclic::local_index(const Point& global) const {
    check_index(global, shape_);
    Point local = global;
    for (int d = 0; d < dims(); ++d)
        local[d] = axis_set(d, coordinate_of_index(d, global[d])).local(global[d]);
    return local;
}

Point BlockCyclic::global_index(std::int64_t rank, const Point& local) const {
    const std::int64_t block = block_of(rank);
    if (block < 0) throw make_error(ErrorCode::out_of_range, "rank ", rank, " is not in the grid");
    check_index(local, block_extents(block));
    const Point c = grid_coordinates(block);
    Point global = local;
    for (int d = 0; d < dims(); ++d) global[d] = axis_set(d, c[d]).global(local[d]);
    return global;
}

std::vector<std::vector<std::int64_t>> BlockCyclic::global_indices(std::int64_t rank) const {
    const std::int64_t block = block_of(rank);
    std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(dims()));
    if (block < 0) return lists;
    const Point c = grid_coordinates(block);
    for (int d = 0; d < dims(); ++d)
        lists[static_cast<std::size_t>(d)] = axis_set(d, c[d]).indices();
    return lists;
}

}  // namespace datamover
