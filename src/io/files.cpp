// SPDX-License-Identifier: BSD-3-Clause
// Saving a distributed array to a flat file and loading it on any number of processes.
//
// The file is moved in rounds. In each, the ranks that read or write stage a contiguous piece of it
// each, and a mover moves between these pieces and the array.
#include "datamover/files.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "datamover/array.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/mover.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "io/whole_file.hpp"
#include "mpi/collectives.hpp"
#include "mpi/process_group.hpp"
#include "npy_header.hpp"

namespace datamover {
namespace {

using io::FlatFile;

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

/// Calls `visit` with boxes of at most `most_elems` elements, at least 1, that follow each other in
/// the flattened box, last dimension fastest, and are each contiguous there.
template <class Visit>
void for_each_flat_part(const Region& box, std::int64_t most_elems, const Visit& visit) {
    if (box.size() <= most_elems) {
        if (!box.empty()) visit(box);
        return;
    }
    const Point shape = box.shape();
    int cut = 0;
    while (shape[cut] == 1) ++cut;
    const std::int64_t thick =
        std::max<std::int64_t>(1, most_elems / (box.size() / shape[cut]));  // in indices of `cut`
    Point lo = box.lo(), hi = box.hi();
    for (; lo[cut] < box.hi()[cut]; lo[cut] = hi[cut]) {
        hi[cut] = std::min(box.hi()[cut], lo[cut] + thick);
        for_each_flat_part({lo, hi}, most_elems, visit);
    }
}

/// How a file stores an array.
struct Stored {
    std::int64_t begin = 0, elem_bytes = 0;  // where the elements begin, in bytes
    ScalarType type = ScalarType::opaque;
    bool is_reversed = false;  // Fortran's array is one of C with its dimensions reversed
    Point shape;

    Point reversed(const Point& point) const {
        Point turned = point;
        for (int d = 0; is_reversed && d < point.dims(); ++d)
            turned[d] = point[point.dims() - 1 - d];
        return turned;
    }
};

io::NpyHeader header_of(const FlatFile& file, const std::string& path, std::int64_t size) {
    std::string bytes(static_cast<std::size_t>(std::min<std::int64_t>(size, 12)), '\0');
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    try {
        const std::int64_t length = io::npy_header_bytes(bytes);
        if (length > size) throw Error(ErrorCode::io, "it ends within NumPy's header");
        bytes.resize(static_cast<std::size_t>(length));
        file.read(0, std::as_writable_bytes(std::span(bytes)));
        return io::parsed_npy_header(bytes);
    } catch (const Error& e) {
        throw Error(e.code(), path + ": " + e.what());
    }
}

/// Checks that a file holds the array, of which `own` is how it would be saved.
Stored stored_in(const FlatFile& file, const std::string& path, FileFormat format,
                 const Stored& own) {
    Stored found = own;
    const std::int64_t size = file.size_bytes();
    if (format == FileFormat::npy) {
        const io::NpyHeader header = header_of(file, path, size);
        if (!(header.shape == own.shape))
            throw make_error(ErrorCode::mismatch, path, " holds an array ", header.shape,
                             ", the one to load has ", own.shape);
        found.type = io::stored_type(header.descr, own.type, own.elem_bytes);
        if (found.type != own.type) found.elem_bytes = scalar_bytes(found.type);
        found.begin = header.bytes;
        found.is_reversed = header.fortran_order;
    }
    const std::int64_t whole =
        geometry::add(found.begin, geometry::multiply(found.shape.product(), found.elem_bytes));
    if (format == FileFormat::npy ? size < whole : size != whole)
        throw make_error(ErrorCode::io, path, " has ", size, " bytes; with the array ", found.shape,
                         " of ", found.elem_bytes, " bytes per element it would have ", whole);
    return found;
}

void check(const ArrayPart& array, const FileOptions& options, int nprocs) {
    if (!array.layout.valid()) throw Error(ErrorCode::invalid_argument, "the array has no layout");
    if (array.layout.nprocs() != nprocs)
        throw make_error(ErrorCode::mismatch, "the array's layout is for ", array.layout.nprocs(),
                         " processes, the communicator has ", nprocs);
    if (array.layout.dims() < 1)
        throw Error(ErrorCode::invalid_argument, "the array's layout has no dimension");
    if (options.max_bytes < 1)
        throw make_error(ErrorCode::invalid_argument, "max_bytes is ", options.max_bytes,
                         "; it must be at least 1");
}

/// The move of an array to or from a file, on one process.
class Transfer {
public:
    /// Collective; errors as of save and load.
    Transfer(MPI_Comm comm, const std::string& path, const ArrayPart& array,
             const FileOptions& options)
        : comm_(comm), group_(mpi::ProcessGroup::of(comm)), path_(path), array_(array) {
        mpi::collectively(*group_, [&] {
            check(array, options, group_->size());
            format_ = format_of(path, options.format);
            ranks_ = ranks_of(options, group_->size());
            most_bytes_ = options.max_bytes;
            const Region domain = array.layout.domain();
            origin_ = domain.lo();
            stored_ = {0, array.elem_bytes, array.type, false, domain.shape()};
            static_cast<void>(geometry::multiply(stored_.shape.product(), array.elem_bytes));
        });
        agree_on(options);
    }

    void save(bool overwrite) {
        std::string header;
        if (format_ == FileFormat::npy)
            header = io::npy_header(io::npy_descr(stored_.type, stored_.elem_bytes), stored_.shape);
        stored_.begin = std::ssize(header);
        const std::int64_t nbytes = stored_.shape.product() * stored_.elem_bytes;
        const std::string hidden = io::hidden_name(path_, token());
        std::optional<io::NewFile> made;
        mpi::collectively(*group_, [&] {
            if (is_first())
                made.emplace(path_, hidden, geometry::add(stored_.begin, nbytes), overwrite);
        });
        mpi::collectively(*group_, [&] {
            if (takes_part()) file_ = FlatFile::to_write(hidden);
            if (is_first()) file_.write(0, std::as_bytes(std::span(header)));
        });
        move_all(true);
        mpi::collectively(*group_, [&] {
            if (file_.is_open()) file_.sync();
        });
        mpi::collectively(*group_, [&] {
            if (made) made->place();
        });
    }

    void load() {
        mpi::collectively(*group_, [&] {
            if (!array_.writable)
                throw Error(ErrorCode::invalid_argument, "the array is only to be read");
            if (!takes_part()) return;
            file_ = FlatFile::to_read(path_);
            stored_ = stored_in(file_, path_, format_, stored_);
        });
        // Those that do not read the file learn how it stores the array; none goes on where one
        // sees that another version has the name.
        std::vector<std::int64_t> found(5, 0);
        if (takes_part())
            found = {stored_.begin, stored_.elem_bytes, static_cast<std::int64_t>(stored_.type),
                     stored_.is_reversed ? 1 : 0, file_.is_replaced() ? 1 : 0};
        found = group_->maximum(found);
        if (found[4] != 0)
            throw make_error(ErrorCode::io, path_, " was replaced or removed while it was opened");
        stored_ = {found[0], found[1], static_cast<ScalarType>(found[2]), found[3] != 0,
                   stored_.shape};
        move_all(false);
    }

private:
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
    bool takes_part() const { return std::ranges::find(ranks_, group_->rank()) != ranks_.end(); }
    bool is_first() const { return group_->rank() == ranks_.front(); }

    /// A number that the first process draws. Collective.
    std::int64_t token() const {
        std::int64_t drawn = 0;
        mpi::collectively(*group_, [&] {
            if (is_first()) drawn = io::drawn_token();
        });
        return group_->maximum({drawn})[0];
    }

    void move_all(bool to_file) {
        const std::int64_t most_elems =
            std::max<std::int64_t>(1, most_bytes_ / 2 / stored_.elem_bytes);  // of a process
        const std::int64_t most_of_all =
            geometry::bounded_multiply(most_elems, static_cast<std::int64_t>(ranks_.size()));
        std::int64_t position = stored_.begin;
        const Region whole = Region::from_shape(stored_.reversed(stored_.shape));
        for_each_flat_part(whole, most_of_all, [&](const Region& box) {
            move_part(box, most_elems, position, to_file);
            position += box.size() * stored_.elem_bytes;
        });
    }
    /// Moves a box of the file, which begins at this byte. Collective.
    void move_part(const Region& box, std::int64_t most_elems, std::int64_t position,
                   bool to_file) {
        const Region whole = Region::from_shape(box.shape());
        const Region section =
            Region(stored_.reversed(box.lo()), stored_.reversed(box.hi())).shifted(origin_);
        std::vector<int> axes(stored_.is_reversed ? static_cast<std::size_t>(box.dims()) : 0);
        std::iota(axes.rbegin(), axes.rend(), 0);
        Array& staging = staged_for(box, most_elems);
        MoverOptions options;
        options.max_bytes = std::max(most_bytes_ / 2, least_message_bytes);
        Mover mover =
            to_file
                ? Mover(comm_, redistribute(array_.layout, section, staging.layout(), whole),
                        array_, staging.part(), options)
                : Mover(comm_, redistribute(staging.layout(), whole, array_.layout, section, axes),
                        staging.part(), array_, options);
        const auto transfer = [&] {
            mpi::collectively(*group_, [&] { transfer_own(position, to_file); });
        };
        if (!to_file) transfer();
        mover();
        mover.close();
        if (to_file) transfer();
    }
    /// Memory for a box of the file: one contiguous piece on each process. Collective.
    Array& staged_for(const Region& box, std::int64_t most_elems) {
        const auto owners = static_cast<std::int64_t>(ranks_.size());
        const std::int64_t least =
            (least_piece_bytes + stored_.elem_bytes - 1) / stored_.elem_bytes;
        const std::int64_t piece =
            std::max((box.size() + owners - 1) / owners, std::min(least, most_elems));
        const Layout layout = FlatCyclic(box.shape(), piece, group_->size(), ranks_);
        if (!staged_ || !(staged_->layout() == layout)) {
            staged_.reset();
            ArrayOptions options;
            options.type = stored_.type;
            staged_ = std::make_unique<Array>(comm_, layout, stored_.elem_bytes, options);
        }
        return *staged_;
    }
    /// Reads or writes what this process stages of a box of the file that begins at this byte.
    void transfer_own(std::int64_t position, bool to_file) const {
        const FlatCyclic& layout = *staged_->layout().flat_cyclic();
        const std::int64_t block = layout.block_of(group_->rank());
        const std::int64_t elems = block < 0 ? 0 : staged_->layout().local_elems(group_->rank());
        if (elems == 0) return;
        position += block * layout.block_elems() * stored_.elem_bytes;
        const std::span bytes(staged_->origin(block),
                              static_cast<std::size_t>(elems * stored_.elem_bytes));
        if (to_file)
            file_.write(position, bytes);
        else
            file_.read(position, bytes);
    }

    MPI_Comm comm_;
    mpi::ProcessGroupPtr group_;
    const std::string& path_;
    const ArrayPart& array_;
    FileFormat format_ = FileFormat::raw;
    std::vector<std::int64_t> ranks_;
    std::int64_t most_bytes_ = 0;
    Point origin_;
    Stored stored_;
    FlatFile file_;
    std::unique_ptr<Array> staged_;
};

}  // namespace

void save(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options) {
    Transfer(comm, path, array, options).save(options.overwrite);
}

void load(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options) {
    Transfer(comm, path, array, options).load();
}

}  // namespace datamover
