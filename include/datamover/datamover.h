/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface: moves the elements of distributed arrays, from C or any language that calls C. */
#ifndef DATAMOVER_DATAMOVER_H
#define DATAMOVER_DATAMOVER_H

#include <datamover/export.h>
#include <datamover/generated/enumerations.h>
#include <datamover/generated/structures.h>
#include <datamover/version.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
DATAMOVER_PUBLIC_BEGIN

/* Rules for every function:
 * - It returns DATAMOVER_SUCCESS or an error code. After an error nothing has been made or moved,
 *   results are not written, and datamover_error_message() returns a description.
 * - "Collective": every process of the communicator calls it, in the same order as other collective
 *   calls. If the call fails on one process, all return the same code and message. The exception is
 *   a process that fails, leaves, or aborts a move: the others then return DATAMOVER_PEER_FAILED
 *   from their current call or from their next one, so that one process may return it from a call
 *   that has succeeded on another. All other functions are local. If a function without a
 *   communicator argument (those of a migration, a stream, or a source) gets a NULL handle on
 *   one process, the others wait.
 * - After DATAMOVER_PEER_FAILED from a move the communicator can no longer be used: every call with
 *   it returns that code again. A copy made by MPI_Comm_dup works.
 * - An index, extent or region is an array of int64_t with one entry per dimension (1 to 8).
 *   Regions are half-open, [lo, hi). Blocks, ranks, indices and dimensions count from 0.
 * - Sizes in bytes end in _bytes; all other sizes count elements.
 * - A timeout is in seconds. Below 0: the default, set by datamover_set_timeout; infinity: wait
 *   forever; 0: do not wait, but return DATAMOVER_TIMEOUT if the call cannot finish now. In an
 *   option struct 0 selects the default of the option, as for all members.
 * - A function returns DATAMOVER_INVALID_ARGUMENT for a NULL pointer unless NULL is allowed. The
 *   library cannot check the size of the memory at a pointer, string termination, or whether a
 *   handle or communicator has been freed; the caller must ensure these.
 * - The caller owns each handle that a function makes, and frees it with the _free function of its
 *   kind, which is local, sets the handle to NULL, and does nothing with a NULL handle. A handle
 *   may be freed while others made from it exist.
 * - Only one thread at a time may use a handle. */

/* ------------------------------------------------------------------ errors */

/* Return the message of this thread's last call that failed: the value, the process, and the valid
 * values. Never NULL; valid until the thread's next call that fails. */
const char* datamover_error_message(void);
/* Return the name of a code, such as "invalid_argument"; "success" for 0. Never NULL. */
const char* datamover_error_name(int code);

/* Set the message that datamover_error_message returns on this thread, for libraries built on this
 * one. Returns `code`. */
int datamover_error_set(int code, const char* message);
/* Agree on success: if any process passes a code other than 0, all return such a code and its
 * message, otherwise 0. Use it for steps that must succeed on all processes before any continues.
 * The message is that of datamover_error_message on that process: of the last call that failed
 * there, or of datamover_error_set. Collective. */
int datamover_agree(MPI_Comm comm, int code);

/* ------------------------------------------------------------------ layouts: owners of elements */

typedef struct datamover_layout datamover_layout;

/* Make a layout of an array of `shape` over `nprocs` processes in an HPF distribution such as
 * "(block, cyclic(64), *)". `options` may be NULL. Memory O(1) in the size of the array. */
int datamover_layout_create_block_cyclic(int dims, const int64_t* shape, const char* distribution,
                                         int64_t nprocs,
                                         const datamover_block_cyclic_options* options,
                                         datamover_layout** layout);
/* Make a layout from a table of `num_blocks` regions with their owners (ranks). `lo` and `hi` hold
 * one region after the other, num_blocks x dims entries. nprocs = -1: the largest owner + 1.
 * O(num_blocks). */
int datamover_layout_create_floor_plan(int dims, int64_t num_blocks, const int64_t* lo,
                                       const int64_t* hi, const int64_t* owners, int64_t nprocs,
                                       datamover_layout** layout);
/* Make a layout of the blocks of `floor_plan` with other owners, one per block, for example after
 * rebalancing the load. nprocs = -1: the largest owner + 1. O(num_blocks). */
int datamover_layout_with_owners(const datamover_layout* floor_plan, const int64_t* owners,
                                 int64_t nprocs, datamover_layout** layout);
/* Make a layout that divides the region [lo, hi) into `grid` blocks per dimension. Block i
 * (row-major) belongs to rank i % nprocs. O(blocks). */
int datamover_layout_create_uniform(int dims, const int64_t* lo, const int64_t* hi,
                                    const int64_t* grid, int64_t nprocs, datamover_layout** layout);
/* Make a layout that divides the region [lo, hi) into tiles of `tile` points, distributed over the
 * ranks in contiguous shares ("block") or round robin ("cyclic"). O(tiles). */
int datamover_layout_create_tiles(int dims, const int64_t* lo, const int64_t* hi,
                                  const int64_t* tile, int64_t nprocs, const char* mapping,
                                  datamover_layout** layout);
/* Make a layout from index lists: rank r holds the flat (row-major) indices indices[offsets[r]] to
 * indices[offsets[r + 1] - 1] of an array of `shape`, in this order. `offsets` has nprocs + 1
 * entries. O(n log n). */
int datamover_layout_create_index_list(int dims, const int64_t* shape, int64_t nprocs,
                                       const int64_t* offsets, const int64_t* indices,
                                       datamover_layout** layout);
/* Make `num_lists` such layouts, for which each process passes only its own lists: counts[k]
 * indices at lists[k]. No process holds all of them. Their elements can be moved among one another
 * and to and from `partners`, layouts over the same shape (NULL for none). Such layouts cannot be
 * saved (datamover_plan_save). `layouts` has room for num_lists handles; free each of them.
 * Collective over `comm`. O(n log n) for n own indices. */
int datamover_layout_create_index_lists(MPI_Comm comm, int dims, const int64_t* shape,
                                        int64_t num_lists, const int64_t* counts,
                                        const int64_t* const* lists,
                                        const datamover_layout* const* partners,
                                        int64_t num_partners, datamover_layout** layouts);
/* Make a layout of an array of `shape`, flattened with the last dimension fastest and distributed
 * cyclically in ranges of `block_elems` elements: the first to owners[0], the next to owners[1],
 * and so on. A process stores its ranges contiguously in a local array of one dimension. owners =
 * NULL: all ranks, in order (num_owners is ignored). O(num_owners). */
int datamover_layout_create_flat_cyclic(int dims, const int64_t* shape, int64_t block_elems,
                                        int64_t nprocs, const int64_t* owners, int64_t num_owners,
                                        datamover_layout** layout);
/* Free a layout. */
int datamover_layout_free(datamover_layout** layout);
/* Make another handle of the same layout; either may be freed first. The tables of floor plans and
 * index lists are shared. */
int datamover_layout_duplicate(const datamover_layout* layout, datamover_layout** duplicate);

/* Get the number of dimensions. */
int datamover_layout_dims(const datamover_layout* layout, int* dims);
/* Get the number of processes that the layout is for. */
int datamover_layout_nprocs(const datamover_layout* layout, int64_t* nprocs);
/* Get the number of blocks, of all ranks together. */
int datamover_layout_num_blocks(const datamover_layout* layout, int64_t* num_blocks);
/* Get the index space: [0, shape), or the bounding box of a floor plan's blocks. */
int datamover_layout_domain(const datamover_layout* layout, int64_t lo[], int64_t hi[]);
/* Get the rank that owns a block. */
int datamover_layout_owner(const datamover_layout* layout, int64_t block, int64_t* rank);
/* Get the blocks of a rank, ascending. `count` is set to their number. `blocks` has room for
 * `capacity` entries (DATAMOVER_OUT_OF_RANGE if that is less than `count`), or is NULL to get only
 * the number. */
int datamover_layout_blocks_of(const datamover_layout* layout, int64_t rank, int64_t blocks[],
                               int64_t capacity, int64_t* count);
/* Get the extents of a block's local array; one extent for an index list, otherwise one per
 * dimension. */
int datamover_layout_block_extents(const datamover_layout* layout, int64_t block,
                                   int64_t extents[]);
/* Get the indices [lo, hi) that a block holds; zeros for an empty block. The layout is a floor
 * plan, or block-cyclic with one interval per process in each dimension; DATAMOVER_UNSUPPORTED for
 * other layouts. O(1), but O(P) in the first call for a block-cyclic layout. */
int datamover_layout_block_region(const datamover_layout* layout, int64_t block, int64_t lo[],
                                  int64_t hi[]);
/* Get the number of elements that a rank holds. */
int datamover_layout_local_elems(const datamover_layout* layout, int64_t rank, int64_t* elems);
/* Compare two layouts: `equal` is set to 1 if they are equal, otherwise to 0. */
int datamover_layout_equal(const datamover_layout* a, const datamover_layout* b, int* equal);

/* Only for block-cyclic layouts; DATAMOVER_UNSUPPORTED for others. O(dims), or O(log P) if ranks
 * were given. */
/* Get the rank that owns an index of the array. */
int datamover_layout_owner_of(const datamover_layout* layout, const int64_t* index, int64_t* rank);
/* Get the extents of a rank's local array; zeros for a rank outside the grid. */
int datamover_layout_local_shape(const datamover_layout* layout, int64_t rank, int64_t extents[]);
/* Convert a global index to the local index on its owner. */
int datamover_layout_local_index(const datamover_layout* layout, const int64_t* global,
                                 int64_t local[]);
/* Convert the local index of a rank to the global index. */
int datamover_layout_global_index(const datamover_layout* layout, int64_t rank,
                                  const int64_t* local, int64_t global[]);

/* ------------------------------------------------------------------ plans: sections to move */

typedef struct datamover_plan datamover_plan;

/* Make a plan that moves every index that both layouts hold from `source` to the same index of
 * `destination`. With `axes`, dimension k of the destination is dimension axes[k] of the source (a
 * transpose: {1, 0}); NULL: unchanged. If the destination needs an index that no block of the
 * source holds, the result is DATAMOVER_MISMATCH: here if that index is outside the source's
 * domain, otherwise when the plan is bound to arrays. O(1). */
int datamover_redistribute(const datamover_layout* source, const datamover_layout* destination,
                           const int* axes, datamover_plan** plan);
/* Make a plan that moves the section [source_lo, source_hi) to the section [destination_lo,
 * destination_hi) of the same shape (after axes): first element to first element, whatever their
 * indices. O(1). */
int datamover_redistribute_section(const datamover_layout* source, const int64_t* source_lo,
                                   const int64_t* source_hi, const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes, datamover_plan** plan);
/* Make a plan as the two functions above do (without sections if all four are NULL). If `partial`
 * is not 0, elements of the destination that no block of the source holds are left unchanged. */
int datamover_redistribute_partial(const datamover_layout* source, const int64_t* source_lo,
                                   const int64_t* source_hi, const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes, int partial, datamover_plan** plan);
/* Make a plan that fills the ghosts of a floor plan's blocks, `lower` and `upper` elements deep on
 * either side of each dimension. The region [periodic_lo, periodic_hi) wraps around in the
 * dimensions in which wraps[d] is not 0 (`wraps` NULL: in all dimensions; periodic_lo and
 * periodic_hi NULL: nowhere). corners = 0: faces only. O(1). */
int datamover_halo(const datamover_layout* floor_plan, const int64_t* lower, const int64_t* upper,
                   const int64_t* periodic_lo, const int64_t* periodic_hi, const int* wraps,
                   int corners, datamover_plan** plan);
/* Make a plan that fills the ghosts of one color: points whose indices, summed in the interior that
 * holds them, have the remainder `color` modulo `colors` (1 to 64; 2 for red and black). */
int datamover_halo_of_color(const datamover_layout* floor_plan, const int64_t* lower,
                            const int64_t* upper, const int64_t* periodic_lo,
                            const int64_t* periodic_hi, const int* wraps, int corners,
                            int64_t colors, int64_t color, datamover_plan** plan);
/* Make the part of a halo for one axis: the ghosts next to the blocks along `axis`, and the corner
 * ghosts that the sender received along earlier axes. The plans of axes 0, 1, ... in one mover, one
 * after the other (datamover_mover_create_set with together = 0), fill all that datamover_halo
 * fills. O(n log n) for n blocks. */
int datamover_axis_halo(const datamover_layout* floor_plan, const int64_t* lower,
                        const int64_t* upper, int axis, const int64_t* periodic_lo,
                        const int64_t* periodic_hi, const int* wraps, datamover_plan** plan);
/* Make a plan that moves the panel [lo, hi) of a block-cyclic array to all processes that differ
 * from its holders only in grid coordinate `along`. The plan's destination layout
 * (datamover_plan_layout) has hi[along] - lo[along] indices in dimension `along`, counted from 0
 * and not distributed. Every other dimension has the extent and the distribution of the array.
 * O(processes). */
int datamover_panel_broadcast(const datamover_layout* layout, const int64_t* lo, const int64_t* hi,
                              int along, datamover_plan** plan);
/* Options of a transfer between two levels of a hierarchy of grids. Zeros and NULLs select the
 * defaults. */
typedef struct datamover_level_options {
    const int64_t*
        lower; /* points to add beyond each lower side, of the level that is read; NULL: 0 */
    const int64_t* upper; /* points to add beyond each upper side, likewise; NULL: 0 */
    const int64_t*
        periodic_lo; /* domain of the level that is read, if it wraps around; NULL: none */
    const int64_t* periodic_hi;
    const int* wraps; /* whether each dimension wraps; NULL: all do */
    int partial;      /* not 0: points that no block holds are left out; 0: they are an error */
} datamover_level_options;
/* Make the plan for a prolongation: every block of the fine level gets the coarse points beneath it
 * (point c is beneath the fine points c * factor to (c + 1) * factor - 1), grown by options->lower
 * and upper. The plan's destination layout (datamover_plan_layout) holds these boxes, with the
 * numbers and owners of the fine blocks. `options` may be NULL. O(n log n) for n blocks. */
int datamover_prolongation(const datamover_layout* coarse, const datamover_layout* fine,
                           const int64_t* factor, const datamover_level_options* options,
                           datamover_plan** plan);
/* Make the plan for a restriction: every block of the coarse level gets the fine points above it.
 * Otherwise as datamover_prolongation. */
int datamover_restriction(const datamover_layout* fine, const datamover_layout* coarse,
                          const int64_t* factor, const datamover_level_options* options,
                          datamover_plan** plan);
/* Make a plan without terms between two layouts, for datamover_plan_add_section. */
int datamover_plan_create(const datamover_layout* source, const datamover_layout* destination,
                          datamover_plan** plan);
/* Add one term: a section of one block, in global indices, is moved to a section of another.
 * Sections may extend into ghosts. `axes` is as in datamover_redistribute; with NULL, sections of
 * other shapes but the same number of elements are both traversed with the last dimension
 * fastest. */
int datamover_plan_add_section(datamover_plan* plan, int64_t source_block, const int64_t* source_lo,
                               const int64_t* source_hi, int64_t destination_block,
                               const int64_t* destination_lo, const int64_t* destination_hi,
                               const int* axes);
/* Add such a term for every step-th index of the sections, from their lower corners; one step per
 * dimension, NULL: 1. Both sections must then have the same number of indices in each dimension. */
int datamover_plan_add_strided_section(datamover_plan* plan, int64_t source_block,
                                       const int64_t* source_lo, const int64_t* source_hi,
                                       const int64_t* source_step, int64_t destination_block,
                                       const int64_t* destination_lo, const int64_t* destination_hi,
                                       const int64_t* destination_step, const int* axes);
/* Make a plan of the terms of both, in order; both must be between the same layouts. */
int datamover_plan_merge(const datamover_plan* a, const datamover_plan* b, datamover_plan** plan);
/* Make the plan in the opposite direction, with source and destination exchanged. */
int datamover_plan_reverse(const datamover_plan* forth, datamover_plan** plan);
/* Make the adjoint of a plan: each pair of elements in the opposite direction, also if several
 * blocks hold an element. All blocks that received an element send it back, so that a mover with op
 * "add" sums it. */
int datamover_plan_adjoint(const datamover_plan* forth, datamover_plan** plan);
/* Make one plan with the effect of `first` and then `next`. The destination layout of `first` must
 * be the source layout of `next`, otherwise DATAMOVER_MISMATCH. Elements that `next` reads and
 * `first` does not write are left out. DATAMOVER_OUT_OF_RANGE if more than 2^24 pairs of sections
 * share an intermediate block. DATAMOVER_UNSUPPORTED for index lists, and for sections that change
 * their shape or have steps. Cost: time and memory proportional to these pairs. */
int datamover_plan_compose(const datamover_plan* first, const datamover_plan* next,
                           datamover_plan** plan);
/* Get the source (side DATAMOVER_SOURCE) or destination layout of a plan, as a handle that the
 * caller owns. */
int datamover_plan_layout(const datamover_plan* plan, datamover_side side,
                          datamover_layout** layout);
/* Get the number of terms (a redistribution is one). */
int datamover_plan_num_terms(const datamover_plan* plan, int64_t* terms);
/* Get the peers to which a rank sends, and the number of elements for each. The peers are in
 * ascending order and include the rank itself. `count` is set to their number. `peers` and `elems`
 * have room for `capacity` entries (DATAMOVER_OUT_OF_RANGE if that is less than `count`), or are
 * NULL to get only the number. Cost: proportional to the rank's own part of the plan. */
int datamover_plan_outgoing(const datamover_plan* plan, int64_t rank, int64_t peers[],
                            int64_t elems[], int64_t capacity, int64_t* count);
/* Get the peers from which a rank receives; otherwise as datamover_plan_outgoing. */
int datamover_plan_incoming(const datamover_plan* plan, int64_t rank, int64_t peers[],
                            int64_t elems[], int64_t capacity, int64_t* count);
/* Get layouts and terms as bytes, for machines with the same byte order. `size_bytes` is set to
 * their number. `bytes` has room for `capacity_bytes` (DATAMOVER_OUT_OF_RANGE if that is too
 * small), or is NULL to get only the number. DATAMOVER_UNSUPPORTED for layouts of
 * datamover_layout_create_index_lists on more than one process, because no process holds all their
 * indices. */
int datamover_plan_to_bytes(const datamover_plan* plan, void* bytes, int64_t capacity_bytes,
                            int64_t* size_bytes);
/* Make a plan from these bytes. DATAMOVER_INVALID_ARGUMENT if the bytes are not those of a plan:
 * truncated, changed, or of another version or byte order. */
int datamover_plan_from_bytes(const void* bytes, int64_t size_bytes, datamover_plan** plan);
/* Write these bytes to a file. The file appears at `path` only once it is complete. */
int datamover_plan_save(const datamover_plan* plan, const char* path);
/* Make a plan from such a file. */
int datamover_plan_load(const char* path, datamover_plan** plan);
/* Free a plan. */
int datamover_plan_free(datamover_plan** plan);

/* ------------------------------------------------------------------ arrays: memory of elements */

typedef struct datamover_array datamover_array;

/* The memory of one block: the element with local index x is at origin + sum of x[d] *
 * strides_bytes[d]. The same formula addresses ghosts, `ghost_lower[d]` below index 0 and
 * `ghost_upper[d]` above the block's extents. */
typedef struct datamover_block {
    int64_t block;                /* number of the block in the layout */
    void* origin;                 /* the element with local index 0 in every dimension */
    const int64_t* strides_bytes; /* one per dimension of the block */
    const int64_t* ghost_lower;   /* NULL: none */
    const int64_t* ghost_upper;   /* NULL: none */
} datamover_block;

/* Make an array in memory that the library allocates and the processes of a node can access: the
 * fastest to move. Contents are initially undefined. `elem_bytes` is the size of `type`, or any
 * size for DATAMOVER_OPAQUE. If `column_major` is not 0, the first dimension is contiguous, as in
 * Fortran; otherwise the last. `ghost_lower` and `ghost_upper` hold one width per dimension; NULL:
 * none. The layout must be for as many processes as the communicator has. Collective. */
int datamover_array_create(MPI_Comm comm, const datamover_layout* layout, datamover_type type,
                           int64_t elem_bytes, int column_major, const int64_t* ghost_lower,
                           const int64_t* ghost_upper, datamover_array** array);
/* Make an array in memory of the caller: this process's `num_blocks` blocks of the layout. The
 * memory must outlive the movers bound to it. Local. */
int datamover_array_of_blocks(const datamover_layout* layout, datamover_type type,
                              int64_t elem_bytes, const datamover_block blocks[],
                              int64_t num_blocks, datamover_array** array);
/* Make an array in memory of the caller that is only read: it can be a source, not a
 * destination. */
int datamover_array_of_const_blocks(const datamover_layout* layout, datamover_type type,
                                    int64_t elem_bytes, const datamover_block blocks[],
                                    int64_t num_blocks, datamover_array** array);
/* Get the memory of one of this process's blocks: the element with local index 0 in every
 * dimension, and one stride per dimension of the block. Each result may be NULL. */
int datamover_array_block(const datamover_array* array, int64_t block, void** origin,
                          int64_t strides_bytes[]);
typedef struct datamover_window_memory datamover_window_memory;

/* Declare that `bytes` bytes at `memory` are in one process's part of a window made with
 * MPI_Win_allocate_shared. The processes of the node then access blocks in it as they do the
 * library's arrays. Each process declares its own blocks, before it binds movers to them. The
 * window must outlive these movers. The declaration is valid until it is freed, and as long as
 * anything is bound to it. Local. */
int datamover_in_window(MPI_Win window, void* memory, int64_t bytes,
                        datamover_window_memory** known);
/* Free such a declaration. */
int datamover_window_memory_free(datamover_window_memory** known);
/* Release the caller's reference. Memory of the library is freed with the last mover bound to
 * it. */
int datamover_array_free(datamover_array** array);

/* ------------------------------------------------------------------ movers: execution of plans */

typedef struct datamover_mover datamover_mover;

/* Bind a plan to two arrays, for any number of rounds. `options` may be NULL. All processes pass
 * the same plan and options. Collective. */
int datamover_mover_create(MPI_Comm comm, const datamover_plan* plan, const datamover_array* source,
                           const datamover_array* destination,
                           const datamover_mover_options* options, datamover_mover** mover);
/* A plan and the arrays to execute it between: sources[k] is moved to destinations[k]. */
typedef struct datamover_move {
    const datamover_plan* plan;
    int64_t num_arrays; /* at least 1 */
    const datamover_array* const* sources;
    const datamover_array* const* destinations;
} datamover_move;
/* Bind several plans and several arrays as one mover. If `together` is not 0, all are executed at
 * once: the elements that one process sends to another share one message per round, if they are
 * sent in messages. If it is 0, the plans are executed one after the other: the elements that a
 * plan moves to this process are in place before the next plan reads them here; use it for halos
 * axis by axis, in which later axes also move the corners. In both cases they are started, tested
 * and waited for as one mover. All processes pass the same number of moves, with the same plans.
 * Collective. */
int datamover_mover_create_set(MPI_Comm comm, const datamover_move moves[], int64_t num_moves,
                               int together, const datamover_mover_options* options,
                               datamover_mover** mover);
/* Bind to other arrays of the same layouts, without planning again. Only for a mover of one plan
 * between two arrays. If it fails, the mover is bound as before. Collective. */
int datamover_mover_rebind(MPI_Comm comm, datamover_mover* mover, const datamover_array* source,
                           const datamover_array* destination);
/* Begin a round. Never waits for another process, but does the work that can be done now; on a node
 * that is often all the copying. With a progress thread it only announces the move. Without one the
 * mover advances only in calls that test or wait, so this process must not wait elsewhere, before
 * its own wait, for a peer that waits for it in this mover. All processes must start movers between
 * the same processes in the same order. Several may be in flight. The caller must write neither
 * source nor destination until wait returns (or test reports completion). */
int datamover_mover_start(datamover_mover* mover);
/* Do the work that can be done now. `done` is set to 0, or to 1 if the round is complete here. Once
 * complete, the mover is no longer in flight: test and wait return DATAMOVER_INVALID_STATE until
 * the next start. */
int datamover_mover_test(datamover_mover* mover, int* done);
/* Wait until the destination is complete here and the source may be overwritten. After
 * `timeout_seconds` it returns DATAMOVER_TIMEOUT, with a message that names the processes still
 * waited for, and the mover is still in flight. */
int datamover_mover_wait(datamover_mover* mover, double timeout_seconds);
/* Start and wait. */
int datamover_mover_run(datamover_mover* mover);
/* Get the counters of a mover. */
int datamover_mover_counters_get(const datamover_mover* mover, datamover_mover_counters* counters);
/* Get how each pair is transferred. `count` is set to the number of pairs. `pairs` has room for
 * `capacity` entries (DATAMOVER_OUT_OF_RANGE if that is less than `count`), or is NULL to get only
 * the number. */
int datamover_mover_pairs(const datamover_mover* mover, datamover_mover_pair pairs[],
                          int64_t capacity, int64_t* count);
/* Measure for about `seconds` which transports are the fastest here, and switch to them. The arrays
 * are not accessed: memory of their size is used in their place; if there is not enough, nothing
 * changes. The program uses the result for later movers with "auto". Later programs find it for
 * "measure" in the file named by DATAMOVER_TUNING_FILE (empty: no file). `comm` is that of the
 * mover. DATAMOVER_INVALID_ARGUMENT unless `seconds` is above 0 and at most 3600,
 * DATAMOVER_INVALID_STATE in flight. Collective over `comm`. */
int datamover_mover_tune(MPI_Comm comm, datamover_mover* mover, double seconds);
/* Get the candidates that tune or "measure" has tried; none if neither has run. `count` and
 * `capacity` are as above. Local. */
int datamover_mover_trials(const datamover_mover* mover, datamover_mover_trial trials[],
                           int64_t capacity, int64_t* count);
/* Free a mover. While it is in flight, returns DATAMOVER_INVALID_STATE and frees nothing. */
int datamover_mover_free(datamover_mover** mover);
/* Free a mover; in flight, abandon the round. The other processes then return DATAMOVER_PEER_FAILED
 * from their waits, and memory that they may still access is kept. Never waits. Local. */
int datamover_mover_abort(datamover_mover** mover);

/* Set the timeout of waits that are given none, in seconds above 0; infinity, which is the initial
 * value: wait forever. The environment variable DATAMOVER_TIMEOUT also sets it. When it expires,
 * they return DATAMOVER_TIMEOUT. Local. */
int datamover_set_timeout(double seconds);
/* Start a thread that moves data while the program computes. Starting a mover then only announces
 * the move. To move messages as well, MPI must be initialized with MPI_THREAD_MULTIPLE;
 * `carries_messages` (may be NULL) is set accordingly. Call datamover_progress_stop once for each
 * call, before MPI_Finalize. Local. */
int datamover_progress_start(int* carries_messages);
/* End one use of the progress thread; it stops after the last. Local. */
int datamover_progress_stop(void);

/* ------------------------------------------------------------------ files: saved arrays */

/* Write an array of any layout to a new file, in rounds: in each, every writer has one contiguous
 * piece of a range of the file. The file is written to a temporary name next to `path`, flushed to
 * the disk, and renamed: `path` is either as it was before or the complete new file. If several
 * blocks hold an element, one copy is written; ghosts are not written. The file of a floor plan
 * holds its domain (datamover_layout_domain), and each element of that must be in some block.
 * `options` may be NULL. All processes pass the same path, array and options. The timeout is that
 * of datamover_set_timeout. DATAMOVER_IO, and no file left, if the file exists, the directory is
 * missing or not writable, the disk is full, or the file would exceed a size limit. Collective. */
int datamover_save(MPI_Comm comm, const char* path, const datamover_array* array,
                   const datamover_file_options* options);
/* Read an array of any layout, without its ghosts, on the current number of processes. The first
 * element of the file is moved to the lowest corner of the layout's domain, whatever its indices. A
 * raw file must have exactly the size of the array (otherwise DATAMOVER_IO). An .npy file must have
 * the shape of the array (otherwise DATAMOVER_MISMATCH), in C or Fortran order, and may be longer.
 * Other number types are converted if NumPy does so under "same_kind" (otherwise
 * DATAMOVER_WRONG_TYPE, for example for floats to integers); opaque arrays accept any elements of
 * their size. All this is checked before anything is moved; if reading fails later, the array holds
 * some old and some new elements. Otherwise as datamover_save. */
int datamover_load(MPI_Comm comm, const char* path, const datamover_array* array,
                   const datamover_file_options* options);

/* ------------------------------------------------------------------ streams */

typedef struct datamover_stream datamover_stream;

/* The number of a step that has none: the one after the last. */
#define DATAMOVER_NEXT_STEP (-1)

/* Open the sending end of a stream, which sends arrays, step by step, to all consumers
 * (`datamover.stream` of Python, `datamover stream`, a page). Process 0 listens at `address`,
 * "tcp://host:port" with an address of its machine that consumers can reach; port 0: any free port.
 * Consumers may connect and leave at any time. Threads of the library, which do not call MPI, serve
 * them. `options` may be NULL. DATAMOVER_IO if the address cannot be listened at. Collective. */
int datamover_stream_create(MPI_Comm comm, const char* address,
                            const datamover_stream_options* options, datamover_stream** stream);
/* Send an array under a name of 1 to 256 bytes. When the call returns, the array may be written
 * again. Arrays sent one after the other with the same `step` are one step; each array sent with
 * DATAMOVER_NEXT_STEP is a step of its own. An array has the same type and layout in every step.
 * DATAMOVER_MISMATCH or DATAMOVER_WRONG_TYPE if these change, or if processes send different
 * arrays; DATAMOVER_INVALID_ARGUMENT if the array was already sent in this step; DATAMOVER_TIMEOUT
 * if consumers took nothing in time; DATAMOVER_INVALID_STATE after datamover_stream_close. All
 * processes return the error of one, and nothing is sent then. Collective. */
int datamover_stream_send(datamover_stream* stream, const char* name, const datamover_array* array,
                          int64_t step);
/* End the step that was sent last; the next array sent begins a new step. Collective. */
int datamover_stream_end_step(datamover_stream* stream);
/* Take the place of the next call of the stream on a process whose program has failed: the others
 * return `code` (above 0) and `message` (NULL: that of datamover_error_message() here) from that
 * call. Returns `code`. Collective, as the call that it replaces. */
int datamover_stream_join_as_failed(datamover_stream* stream, int code, const char* message);
/* Wait until consumers have received what was sent to them, or `timeout_seconds`, then end the
 * stream. A second call does nothing. Collective. */
int datamover_stream_close(datamover_stream* stream, double timeout_seconds);
/* Get the address that consumers connect to, a string that is valid as long as the handle. */
int datamover_stream_address(const datamover_stream* stream, const char** address);
/* Get the token that consumers must present ("" if open), likewise. */
int datamover_stream_token(const datamover_stream* stream, const char** token);
/* Free the handle; a stream that was not closed ends immediately. */
int datamover_stream_free(datamover_stream** stream);

/* Limits the number of streams that hold buffers at the same time. */
typedef struct datamover_stream_manager datamover_stream_manager;

/* Make a stream manager. `options` may be NULL. DATAMOVER_INVALID_ARGUMENT if they are invalid.
 * Collective. */
int datamover_stream_manager_create(MPI_Comm comm, const datamover_stream_manager_options* options,
                                    datamover_stream_manager** manager);
/* Open a stream as datamover_stream_create does, on the manager's communicator, under a name that
 * no other open stream of the manager has. Whatever the policy, a call that sends waits until fewer
 * than `active` other streams hold data that consumers have not taken. It returns
 * DATAMOVER_INVALID_STATE if that would be forever, because all these streams are within a step
 * that the calling thread must complete or end. */
int datamover_stream_manager_create_stream(const datamover_stream_manager* manager,
                                           const char* name, const char* address,
                                           const datamover_stream_options* options,
                                           datamover_stream** stream);
/* Get the number of streams that hold buffers now; only process 0 has it. Local. */
int datamover_stream_manager_active(const datamover_stream_manager* manager, int64_t* streams);
/* Free the handle; its streams remain. */
int datamover_stream_manager_free(datamover_stream_manager** manager);

typedef struct datamover_stream_source datamover_stream_source;

/* The number that datamover_source_next returns after the last step. */
#define DATAMOVER_NO_STEP (-1)

/* Connect to a stream that another program sends at `address`, "tcp://host:port". `options` may be
 * NULL. DATAMOVER_TIMEOUT if no program listens; DATAMOVER_IO if another kind of program does;
 * DATAMOVER_INVALID_ARGUMENT if it requires another token; DATAMOVER_INVALID_STATE if the stream
 * has ended; DATAMOVER_PEER_FAILED if it ends meanwhile, or already serves its largest number of
 * consumers. Collective. */
int datamover_source_create(MPI_Comm comm, const char* address,
                            const datamover_source_options* options,
                            datamover_stream_source** source);
/* Get the number of arrays sent so far, at least one. Waits for the first, at most
 * `timeout_seconds`. DATAMOVER_TIMEOUT, and the errors of datamover_source_next. Collective. */
int datamover_source_arrays(datamover_stream_source* source, double timeout_seconds,
                            int64_t* count);
/* Get the array with a number below that `count`: its name, its dtype (as NumPy writes it to a
 * file, as JSON: "\"<f8\""), the bytes of an element, and a new handle of the layout among the
 * sending processes; each may be NULL. The strings are valid until the next call of
 * datamover_source_arrays. DATAMOVER_OUT_OF_RANGE. Local. */
int datamover_source_array(const datamover_stream_source* source, int64_t number, const char** name,
                           const char** dtype, int64_t* elem_bytes, datamover_layout** layout);
/* Select, once, the `count` arrays to receive, by name, and the arrays into which this process's
 * parts of them are stored in each step; these must exist as long as the handle. Returns once the
 * stream has confirmed the selection: the first step received is the next one to begin after that.
 * DATAMOVER_MISMATCH if processes select different arrays or a layout is for other processes;
 * DATAMOVER_INVALID_STATE if the arrays were already selected; DATAMOVER_TIMEOUT if the stream does
 * not confirm within the timeout of connecting; DATAMOVER_PEER_FAILED if it fails meanwhile.
 * Collective. */
int datamover_source_subscribe(datamover_stream_source* source, int64_t count,
                               const char* const* names, const datamover_array* const* arrays);
/* Select all arrays, whole, on a single process, including those that are first sent later. Each
 * array is received as a step of its own, with the number of its step; get it with
 * datamover_source_whole_array. DATAMOVER_INVALID_ARGUMENT if several processes receive;
 * DATAMOVER_INVALID_STATE. Collective. */
int datamover_source_subscribe_to_all(datamover_stream_source* source);
/* Take the place of the next collective call of the source on a process whose program has failed,
 * as datamover_stream_join_as_failed. */
int datamover_source_join_as_failed(datamover_stream_source* source, int code, const char* message);
/* Wait for the next step, at most `timeout_seconds`, store its arrays and return its number;
 * DATAMOVER_NO_STEP if the stream has ended. Each process gets the same steps. DATAMOVER_TIMEOUT;
 * DATAMOVER_MISMATCH or DATAMOVER_WRONG_TYPE if the arrays do not fit those sent, or the stream has
 * ended and sent only others; DATAMOVER_PEER_FAILED if a sending process failed, or a receiving one
 * was killed or left without taking this step; DATAMOVER_IO if the received data is malformed, or
 * arrived damaged. Local. */
int datamover_source_next(datamover_stream_source* source, double timeout_seconds, int64_t* step);
/* Get whether an array was sent in the last step: 1 or 0. Local. */
int datamover_source_has(const datamover_stream_source* source, const char* name, int* has);
/* Get the array received in the last step, in a program that selected all: its name, dtype and
 * bytes of an element as in datamover_source_array, its elements, the last dimension fastest, their
 * bytes, and a new handle of its layout on this process; each may be NULL. The strings and the
 * elements are valid until the next call of datamover_source_next. DATAMOVER_INVALID_STATE if there
 * is none. Local. */
int datamover_source_whole_array(const datamover_stream_source* source, const char** name,
                                 const char** dtype, int64_t* elem_bytes, void** elements,
                                 int64_t* nbytes, datamover_layout** layout);
/* Get the number of steps that the stream's policy has dropped for this program. Local. */
int datamover_source_dropped(const datamover_stream_source* source, int64_t* steps);
/* Leave the stream and free the handle. The other processes of the communicator still get every
 * step that this one took; for further steps, datamover_source_next returns DATAMOVER_PEER_FAILED
 * there. Local. */
int datamover_source_free(datamover_stream_source** source);

/* ------------------------------------------------------------------ relations: address pairs */

typedef struct datamover_relation datamover_relation;

/* Make a relation: element source[i] is moved to element destination[i], 0 <= i < n. Both count
 * from the bases passed later, in elements of the size of their side. Stored compactly; the order
 * of the pairs is that of a message. O(n). */
int datamover_relation_from_pairs(int64_t n, const int64_t* source, const int64_t* destination,
                                  int64_t source_elem_bytes, int64_t destination_elem_bytes,
                                  datamover_relation** relation);
/* Make a relation of the same pairs, stored as "pairs", "blocks", "runs", "dictionary", "product"
 * or "offsets". */
int datamover_relation_encode(const datamover_relation* relation, const char* encoding,
                              datamover_relation** encoded);
/* Get the number of pairs. */
int datamover_relation_size(const datamover_relation* relation, int64_t* elems);
/* Get the size of the encoding in bytes. */
int datamover_relation_nbytes(const datamover_relation* relation, int64_t* nbytes);
/* Get the name of the encoding; the string is static. */
int datamover_relation_encoding(const datamover_relation* relation, const char** encoding);
/* Get the bytes that a side accesses, relative to its base: [begin, end). The functions below do
 * not check the memory passed to them, except for NULL; check it against these bounds. */
int datamover_relation_bounds(const datamover_relation* relation, datamover_side side,
                              int64_t* begin_bytes, int64_t* end_bytes);
/* Copy every element from the memory at `source` to that at `destination`, which must not overlap.
 * DATAMOVER_INVALID_ARGUMENT, and nothing written, if several elements have the same
 * destination. */
int datamover_relation_copy(const datamover_relation* relation, const void* source,
                            void* destination);
/* Gather the source's elements, in order, into `buffer`, of size x source_elem_bytes. */
int datamover_relation_gather(const datamover_relation* relation, const void* source, void* buffer);
/* Scatter `buffer`, of size x destination_elem_bytes, to the destination's elements, in order.
 * Rejects repeated destinations as copy does. */
int datamover_relation_scatter(const datamover_relation* relation, const void* buffer,
                               void* destination);
/* Copy as above, but convert if the types differ, and combine with the elements in place: `op` is
 * "replace", "add", "multiply", "min" or "max". All except "replace" allow repeated destinations.
 * DATAMOVER_WRONG_TYPE if a type does not have the size of the relation's elements. */
int datamover_relation_update(const datamover_relation* relation, const void* source,
                              datamover_type source_type, void* destination,
                              datamover_type destination_type, const char* op);
/* Split a relation into the halves that each side of a message needs: from the sources to 0, 1, 2,
 * ..., and from those to the destinations. */
int datamover_relation_split(const datamover_relation* relation, datamover_relation** source_half,
                             datamover_relation** destination_half);
/* Join halves: relate the k-th source of one to the k-th destination of the other.
 * DATAMOVER_MISMATCH if they have different numbers of elements. */
int datamover_relation_join(const datamover_relation* source_half,
                            const datamover_relation* destination_half,
                            datamover_relation** relation);

/* The functions below write their results to memory of the caller with room for `capacity` entries,
 * and also return the number of entries. DATAMOVER_OUT_OF_RANGE, and nothing written, if there are
 * more than `capacity`. Pass NULL and 0 to get only the number, with DATAMOVER_SUCCESS. */

/* Get the relation as bytes, for machines with this byte order. */
int datamover_relation_to_bytes(const datamover_relation* relation, void* bytes, int64_t capacity,
                                int64_t* length);
/* Make a relation from such bytes, which may be untrusted. DATAMOVER_INVALID_ARGUMENT if they are
 * not those of a relation. */
int datamover_relation_from_bytes(const void* bytes, int64_t length, datamover_relation** relation);
/* A piece of contiguous memory, laid out as POSIX's struct iovec. */
typedef struct datamover_piece {
    void* data;
    size_t bytes;
} datamover_piece;
/* Get the contiguous pieces of a side, in order, in memory with addresses relative to `base`. */
int datamover_relation_iovec(const datamover_relation* relation, datamover_side side,
                             const void* base, datamover_piece pieces[], int64_t capacity,
                             int64_t* count);
/* Make a committed MPI datatype of a side, with displacements relative to its base; free it with
 * MPI_Type_free. `element` is the type of an element, MPI_DATATYPE_NULL for the same number of
 * bytes. */
int datamover_relation_datatype(const datamover_relation* relation, datamover_side side,
                                MPI_Datatype element, MPI_Datatype* datatype);
/* Put: make a message that holds the elements and their destinations, for a receiver that has
 * neither. */
int datamover_relation_put_message(const datamover_relation* relation, const void* source,
                                   void* message, int64_t capacity, int64_t* length);
/* Accept such a message: write it into [begin_bytes, end_bytes) of `destination`, or not at all. */
int datamover_accept_put(const void* message, int64_t length, void* destination,
                         int64_t begin_bytes, int64_t end_bytes);
/* Get: make a request for the sources of a relation. */
int datamover_relation_get_request(const datamover_relation* relation, void* request,
                                   int64_t capacity, int64_t* length);
/* Answer such a request, with input of scatter. Reads within [begin_bytes, end_bytes) of
 * `source`. */
int datamover_answer_get(const void* request, int64_t request_length, const void* source,
                         int64_t begin_bytes, int64_t end_bytes, void* answer, int64_t capacity,
                         int64_t* length);
/* Free a relation. */
int datamover_relation_free(datamover_relation** relation);

/* ------------------------------------------------------------------ ScaLAPACK's matrices */

/* A process grid, with positions numbered as by BLACS. */
typedef struct datamover_process_grid {
    int nprow;
    int npcol;
    int column_major; /* not 0: position (i, j) has number i + j * nprow, otherwise i * npcol + j */
    const int64_t* ranks; /* the rank at each position; NULL: 0, 1, 2, ... */
} datamover_process_grid;

/* Make the block-cyclic layout of a dense matrix's descriptor {1, CTXT, M, N, MB, NB, RSRC, CSRC,
 * LLD}. CTXT and LLD are ignored. */
int datamover_layout_from_descriptor(const int descriptor[9], const datamover_process_grid* grid,
                                     int64_t nprocs, datamover_layout** layout);
/* Get the descriptor of a rank's part of a two-dimensional block-cyclic layout. An `lld` below the
 * minimum for the rank (0, for example) selects the minimum. */
int datamover_layout_to_descriptor(const datamover_layout* layout, int64_t rank, int context,
                                   int lld, int descriptor[9]);
/* Make an array of the local matrix `data` of process `rank`, column-major with the descriptor's
 * LLD, in the layout that was made from the descriptor. `data` is ignored on a rank outside the
 * grid. */
int datamover_array_of_matrix(const datamover_layout* layout, int64_t rank, const int descriptor[9],
                              datamover_type type, int64_t elem_bytes, void* data,
                              datamover_array** array);
/* Make an array of a local matrix that is only read: it can be a source, not a destination. */
int datamover_array_of_const_matrix(const datamover_layout* layout, int64_t rank,
                                    const int descriptor[9], datamover_type type,
                                    int64_t elem_bytes, const void* data, datamover_array** array);

/* Copy sub(B) = sub(A), as ScaLAPACK's p?gemr2d: A(ia : ia + m - 1, ja : ja + n - 1) is copied to
 * B(ib : ib + m - 1, jb : jb + n - 1), 1-based, between matrices distributed over different grids
 * of one communicator. Elements have `elem_bytes` bytes. All processes pass the same sizes,
 * sections, descriptors (except LLD; CTXT is ignored) and grids; `a` and `b` are ignored outside
 * their grids. Collective, also if m or n is 0, which moves nothing. The movers of the last calls
 * are cached with the communicator (at most 16, and 256 MiB of buffers; the very last whatever its
 * size), so that a call that repeats one of them, including its addresses, plans nothing. */
int datamover_gemr2d(MPI_Comm comm, int64_t elem_bytes, int m, int n, const void* a, int ia, int ja,
                     const int desca[9], const datamover_process_grid* grid_a, void* b, int ib,
                     int jb, const int descb[9], const datamover_process_grid* grid_b);

/* One matrix as seen by one process, in the terms of BLACS. */
typedef struct datamover_matrix {
    void* data;            /* the local matrix; ignored outside the grid */
    const int* descriptor; /* 9 entries, of which DTYPE and CTXT are ignored */
    int row;               /* of the section's first element, from 1 */
    int column;
    int nprow; /* the matrix's grid; 0 if this process does not have it: a NULL descriptor */
    int npcol;
    int grid_row; /* this process's position in the grid; -1 outside */
    int grid_column;
} datamover_matrix;

/* Results of a move between matrices besides its code. `pairs` is NULL or has room for `capacity`
 * entries, of which as many as fit are written. */
typedef struct datamover_matrix_outcome {
    int wrong_argument; /* as datamover_gemr2d_argument counts; the same on all processes */
    int planned;        /* 1 if the move was planned now, 0 if it repeated an earlier one */
    datamover_mover_pair* pairs;
    int64_t capacity;
    int64_t count; /* of pairs, 0 if `pairs` is NULL */
} datamover_matrix_outcome;

/* Copy as datamover_gemr2d, for processes that have only their own position in the grids, with the
 * options of a mover: sub(B) = sub(A), or sub(A)^T if `transposed` is not 0, in which case sub(B)
 * has m x n elements; or op, alpha and beta of `options` (may be NULL). `outcome` may be NULL.
 * Collective. */
int datamover_matrix_move(MPI_Comm comm, datamover_type type, int64_t elem_bytes, int m, int n,
                          const datamover_matrix* a, const datamover_matrix* b, int transposed,
                          const datamover_mover_options* options,
                          datamover_matrix_outcome* outcome);

/* Copy the trapezoid of sub(A) to that of sub(B), as ScaLAPACK's p?trmr2d: the part of the m x n
 * section above its diagonal (`uplo` 'U') or below ('L'), with the diagonal (`diag` 'N') or without
 * ('U'). The diagonal runs from the upper left to the lower right corner of the square that remains
 * without the first m - n rows ('U': they are in the trapezoid) or n - m columns ('L'). Planning
 * takes time and memory proportional to the number of columns. Otherwise as
 * datamover_matrix_move. */
int datamover_trapezoid_move(MPI_Comm comm, int64_t elem_bytes, char uplo, char diag, int m, int n,
                             const datamover_matrix* a, const datamover_matrix* b,
                             datamover_matrix_outcome* outcome);

/* Set what is cached with each communicator for repeated moves between matrices: the movers of the
 * last `movers` calls (0 to 64; initially 16), with at most `buffer_bytes` of buffers (initially
 * 256 MiB), the very last whatever its size unless `movers` is 0. In effect from the next call. The
 * same on all processes. Local. */
int datamover_matrix_cache_limit(int movers, int64_t buffer_bytes);
/* Drop the movers cached with `comm`. All processes drop at the same point of the program.
 * Local. */
int datamover_matrix_cache_drop(MPI_Comm comm);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif
