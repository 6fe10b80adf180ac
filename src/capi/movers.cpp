// SPDX-License-Identifier: BSD-3-Clause
// C interface of movers, arrays, migrations and progress: what is not generated.
#include "movers.hpp"

#include <mutex>
#include <vector>

#include "datamover/progress.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"
#include "migrations.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace datamover::capi {

static std::vector<ArrayPart> parts(const datamover_array* const* arrays, std::int64_t count,
                                    const char* name) {
    std::vector<ArrayPart> all;
    for (const datamover_array* array : values(arrays, count, name))
        all.push_back(value_of(array, name));
    return all;
}

std::vector<PlannedArrays> planned(const datamover_move* moves, std::int64_t count) {
    std::vector<PlannedArrays> all;
    for (const datamover_move& move : values(moves, count, "moves"))
        all.push_back({value_of(move.plan, "plan"), parts(move.sources, move.num_arrays, "sources"),
                       parts(move.destinations, move.num_arrays, "destinations")});
    return all;
}

}  // namespace datamover::capi

// C interface: arrays of the library and of the user.

int datamover_array_block(const datamover_array* array, int64_t block, void** origin,
                          int64_t* strides_bytes) {
    return guarded([&] {
        const ArrayPart& part = value_of(array, "array");
        const BlockMemory* memory = part.memory.find(block);
        if (!memory)
            throw make_error(ErrorCode::out_of_range, "this process does not hold block ", block);
        if (origin) *origin = part.base + memory->offset_bytes;
        if (strides_bytes) write_point(memory->strides_bytes, strides_bytes, "strides_bytes");
    });
}

// C interface: migrations of single elements.

int datamover_migration_start(datamover_migration* migration, int64_t num_columns,
                              const datamover_column* columns, const datamover_room* results) {
    return guarded([&] {
        Migration& d = value_of(migration, "migration");
        std::vector<ElementColumn> moved;
        std::vector<ElementBuffer> arriving;
        try {
            moved = columns_of(d.elems(), num_columns, columns);
            arriving = results_of(num_columns, columns, results);
        } catch (const Error& e) {
            return d.start_refused(e);
        } catch (const std::exception&) {
            return d.start_refused(Error(ErrorCode::no_memory, "out of memory"));
        }
        d.start(moved, arriving);
    });
}

// C interface: the progress thread and timeouts.

namespace {

/// One entry for each start that no stop has met.
struct Started {
    std::mutex mutex;
    std::vector<ProgressThread> threads;
};

Started& started() {
    static auto* all = new Started;
    return *all;
}

}  // namespace

int datamover_progress_start(int* carries_messages) {
    return guarded([&] {
        const std::lock_guard lock(started().mutex);
        started().threads.emplace_back();
        if (carries_messages) *carries_messages = started().threads.back().carries_messages();
    });
}

int datamover_progress_stop(void) {
    return guarded([&] {
        const std::lock_guard lock(started().mutex);
        if (started().threads.empty())
            throw Error(ErrorCode::invalid_state, "no progress thread was started");
        started().threads.pop_back();
    });
}
