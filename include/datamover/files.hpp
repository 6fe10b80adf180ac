// SPDX-License-Identifier: BSD-3-Clause
// Saving a distributed array to a flat file and loading it on any number of processes.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// How the elements stand in a file: one behind the other, the last dimension fastest.
enum class FileFormat {
    by_name,  ///< .npy; .raw, .bin or .dat
    raw,      ///< nothing but the elements
    npy,      ///< behind NumPy's header, which says shape and type
};

struct FileOptions {
    FileFormat format = FileFormat::by_name;
    /// Who writes or reads; empty: all. Each reaches the file under its path.
    std::vector<std::int64_t> ranks = {};
    /// Most bytes of staging memory and message buffers of a process. The file goes in rounds of
    /// half of it for each of `ranks`.
    std::int64_t max_bytes = std::int64_t{128} << 20;
    /// Whether `save` replaces a file that is there.
    bool overwrite = false;
};

/// Writes an array of any layout to a new file. In each round the elements of one range of the file
/// are redistributed to a `FlatCyclic` layout, of which every writer holds one contiguous piece,
/// and writes it at its place. The file is written beside `path`, brought to the disk, and renamed:
/// under `path` stands what stood there before, or all of it, also after a crash. A symbolic link
/// there is replaced, not followed. What saves left
/// behind that were killed, datamover's own names beside `path`, is removed. Of an element that
/// several hold, one copy is written; ghosts are not. The index space of a floor plan is its
/// bounding box, which the file holds. Collective: all give the same path and options. Deadlines
/// are those of set_default_timeout (progress.hpp). Throws, on all processes, and leaves nothing
/// behind: io (the file is there, no such directory, no permission, no space, a limit on its size),
/// mismatch (processes that give different things; an element that nobody holds), invalid_argument
/// (ranks, max_bytes, a path that says no format), no_memory, timeout, peer_failed. Every element
/// crosses memory twice and the disk once; a mover is bound for each round. Source: the paper on
/// network I/O, section 6.3.
void save(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options = {});

/// Fills an array of any layout from a file: its interior, not its ghosts. A raw file has exactly
/// the array's bytes. An .npy file has the array's shape, in C's or Fortran's order; other number
/// types are converted where NumPy does so under "same_kind" (no floats to integers), and an array
/// of opaque elements any of their size. Its first element goes to the domain's lowest corner.
/// Collective, and errors, as `save`; besides, io where the file is too short or no such file, and
/// mismatch or wrong_type where it holds another array, all before anything moves. An array into
/// which reading failed halfway holds some of the old elements and some of the new.
void load(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options = {});

}  // namespace datamover
