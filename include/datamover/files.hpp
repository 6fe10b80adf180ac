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

/// The format of a file: the elements are stored contiguously, the last dimension fastest.
enum class FileFormat {
    by_name,  ///< by extension: .npy; .raw, .bin or .dat
    raw,      ///< elements only
    npy,      ///< elements after NumPy's header, which holds shape and type
};

struct FileOptions {
    FileFormat format = FileFormat::by_name;
    /// The ranks that write or read; empty: all. Each must be able to access the file at its path.
    std::vector<std::int64_t> ranks = {};
    /// Limit of staging memory and message buffers of a process, in bytes. The file is written or
    /// read in rounds of half of it for each of `ranks`.
    std::int64_t max_bytes = std::int64_t{128} << 20;
    /// Whether `save` replaces an existing file.
    bool overwrite = false;
};

/// Write an array of any layout to a new file. In each round the elements of one range of the file
/// are redistributed to a `FlatCyclic` layout, in which every writer holds one contiguous piece,
/// and each writer writes its piece. If several blocks hold an element, one copy is written; ghosts
/// are not written. The index space of a floor plan is its bounding box, which the file holds.
///
/// The file is written to a temporary name next to `path`, flushed to the disk, and renamed. At all
/// times `path` is either as it was before or the complete new file, also after a crash. A symbolic
/// link there is replaced, not followed. Temporary files next to `path` that killed saves left are
/// removed.
///
/// All processes pass the same path and options. Deadlines are those of set_default_timeout
/// (progress.hpp). Throws, on all processes, and then leaves no file: io (the file exists, no such
/// directory, no permission, no space, a limit on its size), mismatch (processes that pass
/// different arguments; an element that no block holds), invalid_argument (ranks, max_bytes, a path
/// that does not determine a format), no_memory, timeout, peer_failed. Collective. Cost: every
/// element is copied through memory twice and written to the disk once; each round binds a mover.
/// Source: the paper on network I/O, section 6.3.
void save(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options = {});

/// Read an array of any layout from a file: its interior, not its ghosts. The first element of the
/// file is moved to the lowest corner of the domain. A raw file must have exactly the size of the
/// array. An .npy file must have the shape of the array, in C or Fortran order. Other number types
/// are converted if NumPy does so under "same_kind" (no floats to integers); an array of opaque
/// elements accepts any of their size. Collective, with the errors of `save`. Also throws io if the
/// file is too short, malformed, replaced while it is opened or cannot be read, and mismatch or
/// wrong_type if it holds another array, all before anything is moved. If reading fails later, the
/// array holds some old and some new elements.
void load(MPI_Comm comm, const std::string& path, const ArrayPart& array,
          const FileOptions& options = {});

}  // namespace datamover
