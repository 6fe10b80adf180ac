// SPDX-License-Identifier: BSD-3-Clause
// C interface: saving and loading distributed arrays.
#include "datamover/files.hpp"

#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

struct FileArguments {
    std::string path;
    ArrayPart array;
    FileOptions options;
};

FileOptions options_of(const datamover_file_options* given_options) {
    FileOptions made;
    if (!given_options) return made;
    made.format = static_cast<FileFormat>(given_options->format);
    if (given_options->ranks) {
        made.ranks = values(given_options->ranks, given_options->num_ranks, "ranks");
        if (made.ranks.empty()) throw Error(ErrorCode::invalid_argument, "ranks has no entry");
    }
    if (given_options->max_bytes != 0) made.max_bytes = given_options->max_bytes;
    made.overwrite = given_options->overwrite != 0;
    return made;
}

FileArguments arguments(MPI_Comm comm, const char* path, const datamover_array* array,
                        const datamover_file_options* options) {
    return collectively(comm, [&] {
        return FileArguments{&given(path, "path"), value_of(array, "array"), options_of(options)};
    });
}

}  // namespace

int datamover_save(MPI_Comm comm, const char* path, const datamover_array* array,
                   const datamover_file_options* options) {
    return guarded([&] {
        const FileArguments all = arguments(comm, path, array, options);
        save(comm, all.path, all.array, all.options);
    });
}

int datamover_load(MPI_Comm comm, const char* path, const datamover_array* array,
                   const datamover_file_options* options) {
    return guarded([&] {
        const FileArguments all = arguments(comm, path, array, options);
        load(comm, all.path, all.array, all.options);
    });
}
