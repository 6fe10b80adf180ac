// SPDX-License-Identifier: BSD-3-Clause
// Saving a distributed array to a flat file and loading it on any number of processes.
#include "datamover/files.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "datamover/array.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/mover.hpp"
#include "flat_rounds.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "io/whole_file.hpp"
#include "mpi/collectives.hpp"
#include "mpi/process_group.hpp"
#include "npy_header.hpp"

namespace datamover {
namespace {

using io::FlatFile;
using io::FlatRounds;

/// Messages of a round may take so much in any case.
constexpr std::int64_t least_message_bytes = std::int64_t{1} << 20;
/// A process writes no less, unless there is no more: it costs as much as a call.
constexpr std::int64_t least_piece_bytes = std::int64_t{64} << 10;

FileFormat format_of(const std::string& path, FileFormat given) {
    if (given == FileFormat::raw || given == FileFormat::npy) return given;
    if (given != FileFormat::by_name)
        throw make_error(ErrorCode::invalid_argument, "file format ", static_cast<int>(given),
                         " is unknown");
    if (path.ends_with(".npy")) return FileFormat::npy;
    for (const char* end : {".raw", ".bin", ".dat"})
        if (path.ends_with(end)) return FileFormat::raw;
    throw Error(
        ErrorCode::invalid_argument,
        path + " does not say its format: end it in .npy, .raw, .bin or .dat, or give the format");
}

std::vector<std::int64_t> ranks_of(const FileOptions& options, int nprocs) {
    std::vector<std::int64_t> ranks = options.ranks;
    if (ranks.empty()) {
        ranks.resize(static_cast<std::size_t>(nprocs));
        std::iota(ranks.begin(), ranks.end(), 0);
    }
    if (std::set<std::int64_t>(ranks.begin(), ranks.end()).size() < ranks.size())
        throw Error(ErrorCode::invalid_argument, "ranks holds a rank twice");
    for (const std::int64_t rank : ranks)
        if (rank < 0 || rank >= nprocs)
            throw make_error(ErrorCode::out_of_range, "ranks holds ", rank,
                             ", the communicator has ", nprocs, " processes");
    return ranks;
}

/// What is the same for a file that is written and one that is read.
class Transfer {
public:
    /// Collective; errors as of save and load.
    Transfer(MPI_Comm comm, const std::string& path, const ArrayPart& array,
             const FileOptions& options)
        : comm_(comm), group_(mpi::ProcessGroup::of(comm)), path_(path), array_(array) {
        mpi::collectively(*group_, [&] {
            check(options);
            format_ = format_of(path_, options.format);
            ranks_ = ranks_of(options, group_->size());
            most_bytes_ = options.max_bytes;
            origin_ = array_.layout.domain().lo();
            shape_ = array_.layout.domain().shape();
            nbytes_ = geometry::multiply(shape_.product(), array_.elem_bytes);
        });
        agree_on(options);
    }

protected:
    bool takes_part() const { return std::ranges::find(ranks_, group_->rank()) != ranks_.end(); }
    /// Who makes a new file, and looks at one that is there.
    bool is_first() const { return group_->rank() == ranks_.front(); }

    /// So many elements may a process stage.
    std::int64_t most_elems(std::int64_t elem_bytes) const {
        return std::max<std::int64_t>(1, most_bytes_ / 2 / elem_bytes);
    }
    FlatRounds rounds(const Point& file_shape, std::int64_t elem_bytes) const {
        const auto owners = static_cast<std::int64_t>(ranks_.size());
        return {file_shape, geometry::bounded_multiply(most_elems(elem_bytes), owners)};
    }
    /// Who stages what of a round's box: one contiguous piece each.
    Layout layout_of(const Region& box, std::int64_t elem_bytes) const {
        const auto owners = static_cast<std::int64_t>(ranks_.size());
        const std::int64_t least = (least_piece_bytes + elem_bytes - 1) / elem_bytes;
        const std::int64_t piece =
            std::max((box.size() + owners - 1) / owners, std::min(least, most_elems(elem_bytes)));
        return FlatCyclic(box.shape(), piece, group_->size(), ranks_);
    }
    /// Memory for a round. Collective.
    Array& staged(const Region& box, ScalarType type, std::int64_t elem_bytes) {
        const Layout layout = layout_of(box, elem_bytes);
        if (!staged_ || !(staged_->layout() == layout)) {
            staged_.reset();
            ArrayOptions options;
            options.type = type;
            staged_ = std::make_unique<Array>(comm_, layout, elem_bytes, options);
        }
        return *staged_;
    }
    /// What this process holds of a round, and how many elements behind the round's first one.
    struct Piece {
        std::int64_t first_elem = 0;
        std::span<std::byte> bytes;
    };
    Piece piece() const {
        const FlatCyclic& layout = *staged_->layout().flat_cyclic();
        const std::int64_t block = layout.block_of(group_->rank());
        const std::int64_t elems = block < 0 ? 0 : staged_->layout().local_elems(group_->rank());
        if (elems == 0) return {};
        return {block * layout.block_elems(),
                {staged_->origin(block), static_cast<std::size_t>(elems * staged_->elem_bytes())}};
    }
    MoverOptions mover_options() const {
        MoverOptions made;
        made.max_bytes = std::max(most_bytes_ / 2, least_message_bytes);
        return made;
    }

    MPI_Comm comm_;
    mpi::ProcessGroupPtr group_;
    std::string path_;
    const ArrayPart& array_;
    FileFormat format_ = FileFormat::raw;
    std::vector<std::int64_t> ranks_;
    std::int64_t most_bytes_ = 0, nbytes_ = 0;
    Point origin_, shape_;

private:
    void check(const FileOptions& options) const {
        if (!array_.layout.valid())
            throw Error(ErrorCode::invalid_argument, "the array has no layout");
        if (array_.layout.nprocs() != group_->size())
            throw make_error(ErrorCode::mismatch, "the array's layout is for ",
                             array_.layout.nprocs(), " processes, the communicator has ",
                             group_->size());
        if (array_.layout.dims() < 1)
            throw Error(ErrorCode::invalid_argument, "the array's layout has no dimension");
        if (options.max_bytes < 1)
            throw make_error(ErrorCode::invalid_argument, "max_bytes is ", options.max_bytes,
                             "; it must be at least 1");
    }
    /// Throws mismatch on all processes if they pass different options or arrays. Collective.
    void agree_on(const FileOptions& options) const {
        std::string ranks;
        for (const std::int64_t rank : ranks_) ranks += concat(ranks.empty() ? "" : ", ", rank);
        mpi::require_same(
            *group_, {{"options", "path=\"" + path_ + '"'},
                      {"elements of the array",
                       concat(array_.elem_bytes, " bytes (", scalar_name(array_.type), ")")},
                      {"options", concat("format=", format_ == FileFormat::npy ? "npy" : "raw")},
                      {"options", concat("max_bytes=", options.max_bytes)},
                      {"options", concat("overwrite=", options.overwrite ? "true" : "false")},
                      {"options", "ranks=(" + ranks + ")"}});
        mpi::require_same(*group_, std::vector{array_.layout.digest()}, [&](std::size_t) {
            return mpi::PassedValue{"layouts", array_.layout.describe()};
        });
    }

    std::unique_ptr<Array> staged_;
};

class Saving : Transfer {
public:
    using Transfer::Transfer;

    void run(bool overwrite) {
        std::string header;
        if (format_ == FileFormat::npy)
            header = io::npy_header(io::npy_descr(array_.type, array_.elem_bytes), shape_);
        begin_ = static_cast<std::int64_t>(header.size());
        make(header, overwrite);
        const FlatRounds all = rounds(shape_, array_.elem_bytes);
        for (std::int64_t k = 0; k < all.count(); ++k) write_round(all, k);
        mpi::collectively(*group_, [&] {
            if (file_.is_open()) file_.sync();
        });
        mpi::collectively(*group_, [&] {
            if (made_) made_->place();
        });
    }

private:
    /// A number that the first process draws. Collective.
    std::int64_t token() const {
        std::int64_t drawn = 0;
        mpi::collectively(*group_, [&] {
            if (is_first()) drawn = io::drawn_token();
        });
        return group_->maximum({drawn})[0];
    }
    void make(const std::string& header, bool overwrite) {
        const std::string hidden = io::hidden_name(path_, token());
        mpi::collectively(*group_, [&] {
            if (is_first()) made_.emplace(path_, hidden, geometry::add(begin_, nbytes_), overwrite);
        });
        mpi::collectively(*group_, [&] {
            if (takes_part()) file_ = FlatFile::to_write(hidden);
            if (is_first()) file_.write(0, std::as_bytes(std::span(header)));
        });
    }
    void write_round(const FlatRounds& all, std::int64_t k) {
        const Region box = all.box(k);
        Array& staging = staged(box, array_.type, array_.elem_bytes);
        Mover mover(comm_,
                    redistribute(array_.layout, box.shifted(origin_), staging.layout(),
                                 Region::from_shape(box.shape())),
                    array_, staging.part(), mover_options());
        mover();
        mover.close();
        mpi::collectively(*group_, [&] {
            const Piece mine = piece();
            file_.write(begin_ + (all.first_elem(k) + mine.first_elem) * array_.elem_bytes,
                        mine.bytes);
        });
    }

    std::optional<io::NewFile> made_;
    FlatFile file_;
    std::int64_t begin_ = 0;  // of the elements, in the file
};

class Loading : Transfer {
public:
    using Transfer::Transfer;

    void run() {
        mpi::collectively(*group_, [&] {
            if (!array_.writable)
                throw Error(ErrorCode::invalid_argument, "the array is only to be read");
            if (takes_part()) open();
        });
        learn();
        const FlatRounds all = rounds(file_shape_, elem_bytes_);
        for (std::int64_t k = 0; k < all.count(); ++k) read_round(all, k);
    }

private:
    /// Opens the file and checks that it holds the array.
    void open() {
        file_ = FlatFile::to_read(path_);
        const std::int64_t size = file_.size_bytes();
        elem_bytes_ = array_.elem_bytes;
        type_ = array_.type;
        if (format_ == FileFormat::npy) take(header(size));
        const std::int64_t whole =
            geometry::add(begin_, geometry::multiply(shape_.product(), elem_bytes_));
        const bool fits = format_ == FileFormat::npy ? size >= whole : size == whole;
        if (!fits)
            throw make_error(ErrorCode::io, path_, " has ", size, " bytes; with the array ", shape_,
                             " of ", elem_bytes_, " bytes per element it would have ", whole);
    }
    io::NpyHeader header(std::int64_t size) const {
        std::string bytes(static_cast<std::size_t>(std::min<std::int64_t>(size, 12)), '\0');
        file_.read(0, std::as_writable_bytes(std::span(bytes)));
        try {
            const std::int64_t length = io::npy_header_bytes(bytes);
            if (length > size) throw Error(ErrorCode::io, "it ends within NumPy's header");
            bytes.resize(static_cast<std::size_t>(length));
            file_.read(0, std::as_writable_bytes(std::span(bytes)));
            return io::parsed_npy_header(bytes);
        } catch (const Error& e) {
            throw Error(e.code(), path_ + ": " + e.what());
        }
    }
    void take(const io::NpyHeader& found) {
        if (!(found.shape == shape_))
            throw make_error(ErrorCode::mismatch, path_, " holds an array ", found.shape,
                             ", the one to load has ", shape_);
        type_ = io::stored_type(found.descr, array_.type, array_.elem_bytes);
        if (type_ != array_.type) elem_bytes_ = scalar_bytes(type_);
        begin_ = found.bytes;
        is_reversed_ = found.fortran_order;
    }
    /// What those that read the header know. Collective.
    void learn() {
        const auto most = group_->maximum(
            {begin_, is_reversed_ ? 1 : 0, elem_bytes_, static_cast<std::int64_t>(type_)});
        begin_ = most[0];
        is_reversed_ = most[1] != 0;
        elem_bytes_ = most[2];
        type_ = static_cast<ScalarType>(most[3]);
        file_shape_ = reversed(shape_);
    }
    /// Fortran's array is one of C with its dimensions reversed.
    Point reversed(const Point& point) const {
        Point turned = point;
        for (int d = 0; is_reversed_ && d < point.dims(); ++d)
            turned[d] = point[point.dims() - 1 - d];
        return turned;
    }
    std::vector<int> axes() const {
        std::vector<int> all(static_cast<std::size_t>(shape_.dims()));
        std::iota(all.rbegin(), all.rend(), 0);
        return is_reversed_ ? all : std::vector<int>{};
    }
    void read_round(const FlatRounds& all, std::int64_t k) {
        const Region box = all.box(k);
        const Region section = Region(reversed(box.lo()), reversed(box.hi())).shifted(origin_);
        Array& staging = staged(box, type_, elem_bytes_);
        Mover mover(comm_,
                    redistribute(staging.layout(), Region::from_shape(box.shape()), array_.layout,
                                 section, axes()),
                    staging.part(), array_, mover_options());
        mpi::collectively(*group_, [&] {
            const Piece mine = piece();
            file_.read(begin_ + (all.first_elem(k) + mine.first_elem) * elem_bytes_, mine.bytes);
        });
        mover();
        mover.close();
    }

    FlatFile file_;
    std::int64_t begin_ = 0, elem_bytes_ = 0;
    ScalarType type_ = ScalarType::opaque;
    bool is_reversed_ = false;
    Point file_shape_;
};

}  // namespace

void save(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options) {
    Saving(comm, path, array, options).run(options.overwrite);
}

void load(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options) {
    Loading(comm, path, array, options).run();
}

}  // namespace datamover
