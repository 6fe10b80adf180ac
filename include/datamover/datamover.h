/* SPDX-License-Identifier: BSD-3-Clause */
/* C interface: moves the elements of distributed arrays, from C or any language that calls C. */
#ifndef DATAMOVER_DATAMOVER_H
#define DATAMOVER_DATAMOVER_H

#include <datamover/export.h>
#include <datamover/version.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/* An enumeration holds any int, as it does in C: a wrong one is an error that is told. */
#define DATAMOVER_ANY_INT : int
extern "C" {
#else
#define DATAMOVER_ANY_INT
#endif
DATAMOVER_PUBLIC_BEGIN

/* What holds for every function:
 * - It returns DATAMOVER_SUCCESS or the code of what went wrong; then nothing has been made or
 * moved, results are not written, and datamover_error_message() says more.
 * - "Collective": every process of the communicator calls it, in the same order as other collective
 *   calls; if the call fails on one, all return the same code and message. The exception is a
 *   process that fails, leaves, or gives up a move: the others then return DATAMOVER_PEER_FAILED
 *   from the call that they are in or from their next one, so one may return it from a call that
 *   has succeeded on another. All other functions are local. A NULL handle on one process leaves
 *   the others waiting where the call is given no communicator: those of a distribution, a stream,
 *   or a source.
 * - After DATAMOVER_PEER_FAILED from a move the communicator is out of use: every call with it
 *   returns that again, and one made by MPI_Comm_dup works.
 * - An index, extent or region is an array of as many int64_t as there are dimensions (1 to 8).
 *   Regions are half-open, [lo, hi). Blocks, ranks, indices and dimensions count from 0.
 * - Sizes in bytes end in _bytes, all else counts elements.
 * - Seconds to wait are a finite number above 0, or what a function says of others. With 0 a call
 *   that would have to wait is DATAMOVER_INVALID_ARGUMENT: the _test functions do not wait. Only
 *   datamover_stream_next takes 0, and looks once.
 * - A NULL pointer, where none is allowed, is DATAMOVER_INVALID_ARGUMENT. What cannot be checked is
 *   the caller's to get right: that a pointer points to as much as it should, a string ends in 0, a
 *   handle has not been freed, a communicator neither.
 * - A handle that a function makes is the caller's, who gives it back with the _free function of
 * its kind: local, sets the handle to NULL, and does nothing with a NULL handle. A handle may be
 * freed while others made from it live on.
 * - A handle is used by one thread at a time. */

/* ------------------------------------------------------------------ errors */

/* The codes are stable: programs match them, never the words of a message. */
typedef enum datamover_code DATAMOVER_ANY_INT {
    DATAMOVER_SUCCESS = 0,
    DATAMOVER_INVALID_ARGUMENT =
        1,                      /* a value that makes no sense (a negative shape, a NULL handle) */
    DATAMOVER_OUT_OF_RANGE = 2, /* an index, region, rank or block outside what it must lie in */
    DATAMOVER_WRONG_TYPE = 3,   /* element types or sizes that do not fit each other */
    DATAMOVER_MISMATCH = 4,     /* things that must agree do not (shapes, plans, layouts) */
    DATAMOVER_NO_MEMORY = 5,    /* memory or shared memory does not suffice */
    DATAMOVER_IO = 6,           /* a file cannot be read or written */
    DATAMOVER_MPI = 7,          /* an MPI call failed, or MPI does not run */
    DATAMOVER_PEER_FAILED = 8,  /* another process of the operation failed */
    DATAMOVER_TIMEOUT = 9,      /* a deadline passed */
    DATAMOVER_INVALID_STATE = 10, /* a call at the wrong time (start twice, use after free) */
    DATAMOVER_UNSUPPORTED = 11    /* a combination that this build or transport cannot do */
} datamover_code;

/* What went wrong in this thread's last call that failed: with which value, on which process, and
 * what would be right. Never NULL; valid until the thread's next call that fails. */
const char* datamover_error_message(void);
/* The name of a code, such as "invalid_argument"; "success" for 0. Never NULL. */
const char* datamover_error_name(int code);

/* For libraries on top of this one: what datamover_error_message tells this thread from now on.
 * Returns `code`. */
int datamover_error_set(int code, const char* message);
/* Where any process gives a code other than 0, all return such a code and its message, else 0: for
 * what has to succeed on all before they go on. The message is what datamover_error_message tells
 * on that process: of the last call that failed there, or of datamover_error_set. Collective. */
int datamover_agree(MPI_Comm comm, int code);

/* ------------------------------------------------------------------ layouts: who owns what */

typedef struct datamover_layout datamover_layout;

/* What besides shape and distribution may be said of a block-cyclic layout; zeros and NULLs stand
 * for the defaults: `datamover_block_cyclic_options options = {0};` */
typedef struct datamover_block_cyclic_options {
    const int64_t*
        grid; /* processes per dimension, 1 where the distribution says *; NULL: chosen */
    const int64_t* first_process; /* per dimension, ScaLAPACK's RSRC and CSRC; NULL: zeros */
    int column_major_grid; /* not 0: ranks are dealt to the grid with its first dimension fastest */
    const int64_t*
        ranks; /* the rank of each block, replica by replica, in grid order; NULL: 0, 1, 2, ... */
    int64_t num_ranks; /* length of `ranks`, as many as there are blocks */
    int64_t replicas;  /* copies of the whole array, each on a grid of its own; 0: one */
} datamover_block_cyclic_options;

/* An array of `shape` dealt out as HPF says, "(block, cyclic(64), *)", to `nprocs` processes.
 * `options` may be NULL. Memory O(1), whatever the array. */
int datamover_layout_block_cyclic(datamover_layout** layout, int dims, const int64_t* shape,
                                  const char* distribution, int64_t nprocs,
                                  const datamover_block_cyclic_options* options);
/* A table of `num_blocks` regions with their owners (ranks). `lo` and `hi` hold one region after
 * the other, num_blocks x dims entries. nprocs = -1: the largest owner + 1. O(num_blocks). */
int datamover_layout_floor_plan(datamover_layout** layout, int dims, int64_t num_blocks,
                                const int64_t* lo, const int64_t* hi, const int64_t* owners,
                                int64_t nprocs);
/* The blocks of `floor_plan` with other owners, one each, as after balancing the load anew.
 * nprocs = -1: the largest owner + 1. O(num_blocks). */
int datamover_layout_with_owners(datamover_layout** layout, const datamover_layout* floor_plan,
                                 const int64_t* owners, int64_t nprocs);
/* The region [lo, hi) cut into `grid` blocks per dimension; block i (row-major) belongs to rank
 * i % nprocs. O(blocks). */
int datamover_layout_uniform(datamover_layout** layout, int dims, const int64_t* lo,
                             const int64_t* hi, const int64_t* grid, int64_t nprocs);
/* The region [lo, hi) cut into tiles of `tile` points, dealt to the ranks in contiguous shares
 * ("block") or round robin ("cyclic"). O(tiles). */
int datamover_layout_tiles(datamover_layout** layout, int dims, const int64_t* lo,
                           const int64_t* hi, const int64_t* tile, int64_t nprocs,
                           const char* mapping);
/* Rank r holds the flat (row-major) indices indices[offsets[r]] to indices[offsets[r + 1] - 1] of
 * an array of `shape`, in this order; `offsets` has nprocs + 1 entries. O(n log n). */
int datamover_layout_index_list(datamover_layout** layout, int dims, const int64_t* shape,
                                int64_t nprocs, const int64_t* offsets, const int64_t* indices);
/* `num_lists` such layouts of which each process gives its own list alone: counts[k] indices at
 * lists[k]. No process holds all. They move among one another and to and from `partners`, layouts
 * over the same shape (NULL for none), and cannot be saved (datamover_plan_save). `layouts` has
 * room for num_lists; all are to be freed. Collective over `comm`. O(n log n) for n own indices. */
int datamover_index_lists(datamover_layout** layouts, MPI_Comm comm, int dims, const int64_t* shape,
                          int64_t num_lists, const int64_t* counts, const int64_t* const* lists,
                          const datamover_layout* const* partners, int64_t num_partners);
/* An array of `shape`, flattened with the last dimension fastest, dealt cyclically in ranges of
 * `block_elems` elements: the first to owners[0], the next to owners[1], and so on. A process keeps
 * its ranges one behind the other, in a local array of one dimension. owners = NULL: all ranks, in
 * order (num_owners is not looked at). O(num_owners). */
int datamover_layout_flat_cyclic(datamover_layout** layout, int dims, const int64_t* shape,
                                 int64_t block_elems, int64_t nprocs, const int64_t* owners,
                                 int64_t num_owners);
int datamover_layout_free(datamover_layout** layout);
/* Another handle of the same layout: either may be freed first. The tables of floor plans and index
 * lists are shared. */
int datamover_layout_duplicate(datamover_layout** duplicate, const datamover_layout* layout);

int datamover_layout_dims(const datamover_layout* layout, int* dims);
int datamover_layout_nprocs(const datamover_layout* layout, int64_t* nprocs);
int datamover_layout_num_blocks(const datamover_layout* layout, int64_t* num_blocks);
/* The index space: [0, shape), or the bounding box of a floor plan's blocks. */
int datamover_layout_domain(const datamover_layout* layout, int64_t* lo, int64_t* hi);
/* The rank that owns a block. */
int datamover_layout_owner(const datamover_layout* layout, int64_t block, int64_t* rank);
/* The blocks of a rank, ascending. `count` is set to their number; `blocks` may be NULL to ask for
 * that alone, else it has room for `capacity`, and less than `count` is DATAMOVER_OUT_OF_RANGE. */
int datamover_layout_blocks_of(const datamover_layout* layout, int64_t rank, int64_t* blocks,
                               int64_t capacity, int64_t* count);
/* Extents of a block's local array; one extent for an index list, else one per dimension. */
int datamover_layout_block_extents(const datamover_layout* layout, int64_t block, int64_t* extents);
/* The indices that a block holds, [lo, hi), of a floor plan, or of a block-cyclic layout of which
 * everybody holds one interval in each dimension; zeros for an empty block. DATAMOVER_UNSUPPORTED
 * for other layouts. O(1), but O(P) in the first call for a block-cyclic layout. */
int datamover_layout_block_region(const datamover_layout* layout, int64_t block, int64_t* lo,
                                  int64_t* hi);
/* Number of elements that a rank holds. */
int datamover_layout_local_elems(const datamover_layout* layout, int64_t rank, int64_t* elems);
/* `equal` is set to 1 where both say the same, else to 0. */
int datamover_layout_equal(const datamover_layout* a, const datamover_layout* b, int* equal);

/* For block-cyclic layouts alone; DATAMOVER_UNSUPPORTED for others. O(dims), but where ranks were
 * given O(log P). */
/* The rank that owns an index of the array. */
int datamover_layout_owner_of(const datamover_layout* layout, const int64_t* index, int64_t* rank);
/* Extents of a rank's local array; zeros for a rank outside the grid. */
int datamover_layout_local_shape(const datamover_layout* layout, int64_t rank, int64_t* extents);
/* Global index to the local one on its owner, and back. */
int datamover_layout_local_index(const datamover_layout* layout, const int64_t* global,
                                 int64_t* local);
int datamover_layout_global_index(const datamover_layout* layout, int64_t rank,
                                  const int64_t* local, int64_t* global);

/* ------------------------------------------------------------------ plans: which section goes
 * where */

typedef struct datamover_plan datamover_plan;

/* What is read, and what is written. */
typedef enum datamover_side DATAMOVER_ANY_INT {
    DATAMOVER_SOURCE = 0,
    DATAMOVER_DESTINATION = 1
} datamover_side;

/* Every index that both layouts hold goes from `source` to the same index of `destination`. With
 * `axes`, dimension k of the destination is dimension axes[k] of the source (a transpose: {1, 0});
 * NULL: as they are. If the destination needs an index that no block of the source holds, the
 * result is DATAMOVER_MISMATCH: here if that index is outside the source's domain, else when the
 * plan is bound to arrays. O(1). */
int datamover_redistribute(datamover_plan** plan, const datamover_layout* source,
                           const datamover_layout* destination, const int* axes);
/* The section [source_lo, source_hi) goes to the section [destination_lo, destination_hi), of the
 * same shape (after axes): first element to first element, whatever their indices. O(1). */
int datamover_redistribute_section(datamover_plan** plan, const datamover_layout* source,
                                   const int64_t* source_lo, const int64_t* source_hi,
                                   const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes);
/* As the two functions above (without sections if all four are NULL). If `partial` is not 0,
 * elements of the destination that no block of the source holds are left unchanged. */
int datamover_redistribute_partial(datamover_plan** plan, const datamover_layout* source,
                                   const int64_t* source_lo, const int64_t* source_hi,
                                   const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes, int partial);
/* Fills the ghosts of a floor plan's blocks, `lower` and `upper` elements deep on either side of
 * each dimension. The region [periodic_lo, periodic_hi) wraps around where wraps[d] is not 0
 * (`wraps` NULL: in all dimensions; periodic_lo and periodic_hi NULL:
 * nowhere). corners = 0: faces only. O(1). */
int datamover_halo(datamover_plan** plan, const datamover_layout* floor_plan, const int64_t* lower,
                   const int64_t* upper, const int64_t* periodic_lo, const int64_t* periodic_hi,
                   const int* wraps, int corners);
/* The same for the ghosts of one colour: of points whose indices, summed where an interior holds
 * them, leave `colour` when divided by `colours` (1 to 64; 2 for red and black). */
int datamover_halo_of_colour(datamover_plan** plan, const datamover_layout* floor_plan,
                             const int64_t* lower, const int64_t* upper, const int64_t* periodic_lo,
                             const int64_t* periodic_hi, const int* wraps, int corners,
                             int64_t colours, int64_t colour);
/* The part of a halo beside the blocks along one axis, with the corners that earlier axes brought
 * to the sender: the plans of axes 0, 1, ... as phases of one mover (datamover_mover_new_phases)
 * fill all that datamover_halo fills. O(n log n) for n blocks. */
int datamover_axis_halo(datamover_plan** plan, const datamover_layout* floor_plan,
                        const int64_t* lower, const int64_t* upper, int axis,
                        const int64_t* periodic_lo, const int64_t* periodic_hi, const int* wraps);
/* The panel [lo, hi) of a block-cyclic array goes to all processes that differ from those that hold
 * it only in grid coordinate `along`. The plan's destination layout (datamover_plan_layout) is
 * hi[along] - lo[along] long in dimension `along`, counted from 0 and not dealt out, and in every
 * other dimension as long as the array and dealt out as the array is. O(processes). */
int datamover_panel_broadcast(datamover_plan** plan, const datamover_layout* layout,
                              const int64_t* lo, const int64_t* hi, int along);
/* What one level of a hierarchy of grids takes from the other; zeros and NULLs stand for the
 * defaults. */
typedef struct datamover_level_options {
    const int64_t* lower; /* points beyond each lower side, of the level that is read */
    const int64_t* upper; /* likewise beyond each upper side; NULL: 0 */
    const int64_t*
        periodic_lo; /* of the level that is read, where it wraps around; NULL: nowhere */
    const int64_t* periodic_hi;
    const int* wraps; /* per dimension; NULL: in all */
    int partial;      /* not 0: points that no block holds are left out, else they are an error */
} datamover_level_options;
/* Every block of the fine level gets the coarse points beneath it (point c beneath the fine points
 * c * factor to (c + 1) * factor - 1), grown by options->lower and upper. The plan's destination
 * layout (datamover_plan_layout) holds these boxes, with the numbers and owners of the fine blocks.
 * `options` may be NULL. O(n log n) for n blocks. */
int datamover_prolongation(datamover_plan** plan, const datamover_layout* coarse,
                           const datamover_layout* fine, const int64_t* factor,
                           const datamover_level_options* options);
/* Every block of the coarse level gets the fine points above it; all else alike. */
int datamover_restriction(datamover_plan** plan, const datamover_layout* fine,
                          const datamover_layout* coarse, const int64_t* factor,
                          const datamover_level_options* options);
/* A plan without terms between two layouts, for datamover_plan_copy. */
int datamover_plan_new(datamover_plan** plan, const datamover_layout* source,
                       const datamover_layout* destination);
/* Adds one term: a section of one block, in global indices, goes to a section of another. Sections
 * may reach into ghosts. `axes` as in datamover_redistribute; NULL: sections of other shapes but
 * equally many elements are both walked with the last dimension fastest. */
int datamover_plan_copy(datamover_plan* plan, int64_t source_block, const int64_t* source_lo,
                        const int64_t* source_hi, int64_t destination_block,
                        const int64_t* destination_lo, const int64_t* destination_hi,
                        const int* axes);
/* The same for every step-th index of the sections, from their lower corners on; one step per
 * dimension, NULL: 1. Both sections then hold as many indices in each dimension. */
int datamover_plan_copy_strided(datamover_plan* plan, int64_t source_block,
                                const int64_t* source_lo, const int64_t* source_hi,
                                const int64_t* source_step, int64_t destination_block,
                                const int64_t* destination_lo, const int64_t* destination_hi,
                                const int64_t* destination_step, const int* axes);
/* The terms of both, in order; both must be between the same layouts. */
int datamover_plan_merge(datamover_plan** plan, const datamover_plan* a, const datamover_plan* b);
/* The way back: source and destination exchanged. */
int datamover_plan_reverse(datamover_plan** plan, const datamover_plan* forth);
/* Each pair of elements the other way, also where several blocks hold an element: what was received
 * by several comes back from all of them, so that a mover with op "add" sums it. */
int datamover_plan_adjoint(datamover_plan** plan, const datamover_plan* forth);
/* What `first` and then `next` do, in one: first's destination layout is next's source layout, else
 * DATAMOVER_MISMATCH. What `next` reads and `first` does not write is left out. Takes time and
 * memory in the pairs of sections that share a block in between: DATAMOVER_OUT_OF_RANGE where these
 * are more than 2^24. DATAMOVER_UNSUPPORTED for index lists, and for sections that change their
 * shape or have steps. */
int datamover_plan_compose(datamover_plan** plan, const datamover_plan* first,
                           const datamover_plan* next);
/* Its source layout (side DATAMOVER_SOURCE) or destination layout, as a handle of the caller's. */
int datamover_plan_layout(const datamover_plan* plan, datamover_side side,
                          datamover_layout** layout);
/* Number of terms (a redistribution is one). */
int datamover_plan_num_terms(const datamover_plan* plan, int64_t* terms);
/* The peers to which (from which) a rank sends (receives) anything, itself included, ascending, and
 * how many elements each. `count` is set to their number; `peers` and `elems` may be NULL to ask
 * for that alone, else they have room for `capacity`, and less than `count` is
 * DATAMOVER_OUT_OF_RANGE. Takes time in the rank's own part of the plan. */
int datamover_plan_outgoing(const datamover_plan* plan, int64_t rank, int64_t* peers,
                            int64_t* elems, int64_t capacity, int64_t* count);
int datamover_plan_incoming(const datamover_plan* plan, int64_t rank, int64_t* peers,
                            int64_t* elems, int64_t capacity, int64_t* count);
/* Layouts and terms as bytes, for machines of the same byte order. `size_bytes` is set to their
 * number; `bytes` may be NULL to ask for that alone, else it has room for `capacity_bytes`, and too
 * little is DATAMOVER_OUT_OF_RANGE. DATAMOVER_UNSUPPORTED for layouts of datamover_index_lists on
 * more than one process: none has all that is to be saved. */
int datamover_plan_to_bytes(const datamover_plan* plan, void* bytes, int64_t capacity_bytes,
                            int64_t* size_bytes);
/* DATAMOVER_INVALID_ARGUMENT where the bytes are not those of a plan: cut off, changed, of another
 * version or byte order. */
int datamover_plan_from_bytes(datamover_plan** plan, const void* bytes, int64_t size_bytes);
/* The same in a file, which appears under its name when it is complete. */
int datamover_plan_save(const datamover_plan* plan, const char* path);
int datamover_plan_load(datamover_plan** plan, const char* path);
int datamover_plan_free(datamover_plan** plan);

/* ------------------------------------------------------------------ arrays: where elements lie */

typedef struct datamover_array datamover_array;

/* Element types; what is only copied may be DATAMOVER_OPAQUE, of any size. */
typedef enum datamover_type DATAMOVER_ANY_INT {
    DATAMOVER_OPAQUE = 0,
    DATAMOVER_INT8 = 1,
    DATAMOVER_INT16 = 2,
    DATAMOVER_INT32 = 3,
    DATAMOVER_INT64 = 4,
    DATAMOVER_UINT8 = 5,
    DATAMOVER_UINT16 = 6,
    DATAMOVER_UINT32 = 7,
    DATAMOVER_UINT64 = 8,
    DATAMOVER_FLOAT32 = 9,
    DATAMOVER_FLOAT64 = 10,
    DATAMOVER_COMPLEX64 = 11,
    DATAMOVER_COMPLEX128 = 12,
    DATAMOVER_BOOLEAN = 13,
    DATAMOVER_FLOAT16 = 14,
    DATAMOVER_BFLOAT16 = 15,
    DATAMOVER_FLOAT8_E4M3FN = 16,
    DATAMOVER_FLOAT8_E5M2 = 17
} datamover_type;

/* Where one block lies: local index x has its element at origin + sum of x[d] * strides_bytes[d].
 * Ghosts, `ghost_lower[d]` below index 0 and `ghost_upper[d]` above the block's extents, are
 * reached by the same rule. */
typedef struct datamover_block {
    int64_t block;                /* its number in the layout */
    void* origin;                 /* the element with local index 0 in every dimension */
    const int64_t* strides_bytes; /* one per dimension of the block */
    const int64_t* ghost_lower;   /* NULL: none */
    const int64_t* ghost_upper;   /* NULL: none */
} datamover_block;

/* An array whose memory the library takes, where the processes of a node can reach it: the fastest
 * to move. Contents are undefined at first. `elem_bytes` is the size of `type`, or any for
 * DATAMOVER_OPAQUE. Not 0 in `column_major`: the first dimension is contiguous, as in Fortran, else
 * the last. `ghost_lower` and `ghost_upper` hold one width per dimension; NULL: none. Collective;
 * the layout is for as many processes as the communicator has. */
int datamover_array_new(datamover_array** array, MPI_Comm comm, const datamover_layout* layout,
                        datamover_type type, int64_t elem_bytes, int column_major,
                        const int64_t* ghost_lower, const int64_t* ghost_upper);
/* An array in memory of the caller: this process's `num_blocks` blocks of the layout. The memory
 * must outlive the movers bound to it. Local. */
int datamover_array_of_blocks(datamover_array** array, const datamover_layout* layout,
                              datamover_type type, int64_t elem_bytes,
                              const datamover_block* blocks, int64_t num_blocks);
/* The same, for memory that is only read: it can be a source, not a destination. */
int datamover_array_of_const_blocks(datamover_array** array, const datamover_layout* layout,
                                    datamover_type type, int64_t elem_bytes,
                                    const datamover_block* blocks, int64_t num_blocks);
/* Where one of this process's blocks lies: the element with local index 0 in every dimension, and
 * one stride per dimension of the block. Each result may be NULL. */
int datamover_array_block(const datamover_array* array, int64_t block, void** origin,
                          int64_t* strides_bytes);
typedef struct datamover_window_memory datamover_window_memory;

/* Says that `bytes` bytes at `memory` lie in one process's part of a window that was made with
 * MPI_Win_allocate_shared: blocks in it are reached by the processes of the node as the library's
 * arrays are. Each process says it of its own blocks, before it binds movers to them; the window
 * must outlive these. Known until freed, and as long as anything is bound to it. Local. */
int datamover_in_window(datamover_window_memory** known, MPI_Win window, void* memory,
                        int64_t bytes);
int datamover_window_memory_free(datamover_window_memory** known);
/* Gives back the caller's reference; the library's memory goes when the last mover bound to it is
 * freed. */
int datamover_array_free(datamover_array** array);

/* ------------------------------------------------------------------ movers: carrying a plan out */

typedef struct datamover_mover datamover_mover;

/* How arriving elements are combined with those in place, and carried. Zeros and NULLs stand for
 * the defaults. */
typedef struct datamover_mover_options {
    const char* op;        /* "replace" (default), "add", "multiply", "min", "max" */
    const char* transport; /* "auto" (default), or the name of one, such as "shared" or "p2p:64K" */
    const double* alpha;   /* real and imaginary part of the factor of arriving elements; NULL: 1 */
    const double* beta;    /* the same for those in place, with "add"; NULL: 1 */
    int conjugate;         /* not 0: arriving complex elements are conjugated */
    int64_t max_bytes;     /* of message buffers and staging on this process; 0: no limit. At least
                              an element, in whole lines of 64 bytes, and 128 bytes more for each
                              process that it sends to, and for each that it receives from */
    /* Not 0: verifies, here and in rebind, that sizes match for every pair, no element is written
     * twice and none is read that is written; the message names process, block and region. Where
     * one process asks, all do. Takes time and memory in the elements. (That all processes bring
     * the same plan and options is always verified.) */
    int check;
} datamover_mover_options;

typedef struct datamover_mover_counters {
    int64_t rounds;            /* completed since binding */
    int64_t messages_sent;     /* per round, to other processes */
    int64_t messages_received; /* per round, from other processes */
    int64_t bytes_sent;        /* per round, to other processes */
    int64_t bytes_received;    /* per round, from other processes */
    int64_t bytes_kept;        /* per round, copied within this process */
    double wait_seconds;       /* in wait since binding, each without its first microsecond */
    int64_t extra_bytes;       /* of buffers besides the arrays */
} datamover_mover_counters;

/* How one pair's part is carried; texts end in 0, and long ones are cut. */
typedef struct datamover_mover_pair {
    int64_t peer;
    int sends; /* 1: to the peer, 0: from it */
    int64_t elems;
    int64_t bytes;
    int64_t relation_bytes; /* that the encoded relation occupies */
    int64_t chunks;         /* in so many pieces it goes, per round */
    char transport[16];
    char why[80]; /* why this transport */
    char encoding[16];
    char kernel[96]; /* the copy loops */
} datamover_mover_pair;

/* What was tried to find the fastest transports; texts end in 0, and long ones are cut. */
typedef struct datamover_mover_trial {
    double seconds; /* of a round, of the slowest process; 0 where it cannot carry */
    int64_t rounds; /* that were run */
    int chosen;     /* 1: the mover goes this way */
    char transport[32];
    char why_not[160];    /* why it cannot carry the plan; empty where it can */
    char passed_over[80]; /* why it was not taken although it took no longer than what was */
} datamover_mover_trial;

/* Binds a plan to two arrays, to be carried out any number of times. `options` may be NULL.
 * Collective; all processes give the same plan and options. */
int datamover_mover_new(datamover_mover** mover, MPI_Comm comm, const datamover_plan* plan,
                        const datamover_array* source, const datamover_array* destination,
                        const datamover_mover_options* options);
/* One plan, and the arrays between which it is carried out: sources[k] goes to destinations[k]. */
typedef struct datamover_move {
    const datamover_plan* plan;
    int64_t num_arrays; /* at least 1 */
    const datamover_array* const* sources;
    const datamover_array* const* destinations;
} datamover_move;
/* Binds several plans and several arrays at once: what goes from one process to another travels
 * together, in one message per round where it is sent. Collective; all processes give as many
 * moves, with the same plans. */
int datamover_mover_new_set(datamover_mover** mover, MPI_Comm comm, const datamover_move* moves,
                            int64_t num_moves, const datamover_mover_options* options);
/* The same plans one after the other: what one brings to this process is there before the next one
 * reads it here. Started, tested and waited for as one mover, as for halos axis by axis, where
 * corners travel with the later axes. Collective; all processes give as many moves. */
int datamover_mover_new_phases(datamover_mover** mover, MPI_Comm comm, const datamover_move* phases,
                               int64_t num_phases, const datamover_mover_options* options);
/* Goes over to other arrays of the same layouts, without planning again; of a mover of one plan
 * between two arrays. Collective; where it fails, the mover is bound as before. */
int datamover_mover_rebind(datamover_mover* mover, MPI_Comm comm, const datamover_array* source,
                           const datamover_array* destination);
/* Begins to move. Never waits for another process, but does by itself what can be done now: on a
 * node that is often all the copying (with a progress thread it only announces the move; without
 * one it goes on only in calls that test or wait, so this process must not wait elsewhere, before
 * its own wait, for a peer that waits for it here). Movers between the same processes are started
 * in the same order on all of them; several may be in flight. Until wait returns (or test is done)
 * the caller writes neither source nor destination. */
int datamover_mover_start(datamover_mover* mover);
/* Does what can be done now; `done` is set to 1 when complete here, else to 0. When complete the
 * mover is no longer in flight: test and wait are DATAMOVER_INVALID_STATE until the next start. */
int datamover_mover_test(datamover_mover* mover, int* done);
/* Returns when the destination is complete here and the source may be overwritten. After
 * `timeout_seconds` (below 0: those of datamover_set_timeout) it returns DATAMOVER_TIMEOUT, the
 * message naming the processes still waited for, and the mover is still in flight. */
int datamover_mover_wait(datamover_mover* mover, double timeout_seconds);
/* start and wait. */
int datamover_mover_move(datamover_mover* mover);
int datamover_mover_counters_get(const datamover_mover* mover, datamover_mover_counters* counters);
/* How each pair is carried. `count` is set to the number of pairs; `pairs` may be NULL to ask for
 * that alone, else it has room for `capacity`, and less than `count` is DATAMOVER_OUT_OF_RANGE. */
int datamover_mover_pairs(const datamover_mover* mover, datamover_mover_pair* pairs,
                          int64_t capacity, int64_t* count);
/* Measures for about `seconds` which transports are the fastest here, and goes over to them. The
 * arrays are not touched: memory of their size stands in for them meanwhile; where there is none,
 * nothing changes. The program remembers the result for movers with "auto", and later programs find
 * it for "measure" in the file that DATAMOVER_TUNING_FILE names (empty: none). Collective over
 * `comm`, that of the mover. DATAMOVER_INVALID_ARGUMENT unless `seconds` is above 0 (at most 3600),
 * DATAMOVER_INVALID_STATE in flight, DATAMOVER_UNSUPPORTED for a mover with "poison:". */
int datamover_mover_tune(datamover_mover* mover, MPI_Comm comm, double seconds);
/* What tune, or "measure", has tried; nothing where nothing was. `count` and `capacity` as above.
 * Local. */
int datamover_mover_trials(const datamover_mover* mover, datamover_mover_trial* trials,
                           int64_t capacity, int64_t* count);
/* DATAMOVER_INVALID_STATE, and nothing freed, while the mover is in flight. */
int datamover_mover_free(datamover_mover** mover);
/* The same; in flight it gives the round up: the other processes get DATAMOVER_PEER_FAILED where
 * they wait, and memory that they may still touch stays. Local, never waits. */
int datamover_mover_give_up(datamover_mover** mover);

/* Seconds after which waits that are given none of their own return DATAMOVER_TIMEOUT; 0: never.
 * DATAMOVER_TIMEOUT in the environment sets them too. Local. */
int datamover_set_timeout(double seconds);
/* Starts a thread that moves data while the program computes: start of a mover then only announces
 * the move. Messages need MPI initialised with MPI_THREAD_MULTIPLE; `carries_messages` (may be
 * NULL) tells. Each call needs one of datamover_progress_stop before MPI_Finalize. Local. */
int datamover_progress_start(int* carries_messages);
int datamover_progress_stop(void);

/* ------------------------------------------------------------------ files: arrays that are kept */

/* How elements stand in a file: one behind the other, the last dimension fastest. */
typedef enum datamover_file_format DATAMOVER_ANY_INT {
    DATAMOVER_FILE_BY_NAME = 0, /* .npy; .raw, .bin or .dat */
    DATAMOVER_FILE_RAW = 1,     /* nothing but the elements */
    DATAMOVER_FILE_NPY = 2      /* behind NumPy's header, which says shape and type */
} datamover_file_format;

/* Zeros and NULLs stand for the defaults. */
typedef struct datamover_file_options {
    datamover_file_format format;
    const int64_t* ranks; /* who writes or reads, and reaches the file; NULL: all */
    int64_t num_ranks;    /* length of `ranks` */
    int64_t max_bytes;    /* of staging memory and message buffers on a process; 0: 128 MiB */
    int overwrite;        /* not 0: datamover_save replaces a file that is there */
} datamover_file_options;

/* Writes an array of any layout to a new file: in rounds, each a range of the file of which every
 * writer has one contiguous piece. The file is written beside `path`, brought to the disk, and
 * renamed: under `path` stands what stood there before, or all of it. Of an element that several
 * hold, one copy is written; ghosts are not. The file of a floor plan holds its domain
 * (datamover_layout_domain), and each element of that must be in some block. `options` may be NULL.
 * Collective; all give the same path, array and options. Deadlines: datamover_set_timeout.
 * DATAMOVER_IO, and nothing left behind, where the file is there, the directory is missing or may
 * not be written, the disk is full, the file would be larger than it may be. */
int datamover_save(MPI_Comm comm, const char* path, const datamover_array* array,
                   const datamover_file_options* options);
/* Fills an array of any layout, on as many processes as there are now, but for its ghosts. A raw
 * file has exactly the array's bytes (else DATAMOVER_IO). An .npy file has the array's shape (else
 * DATAMOVER_MISMATCH), in C's or Fortran's order, and may be longer; other number types are
 * converted where NumPy does so under "same_kind" (else DATAMOVER_WRONG_TYPE: floats to integers,
 * say), opaque arrays take any elements of their size. All that is checked before anything moves;
 * where reading fails later, the array holds some old and some new elements. The first element of
 * the file goes to the lowest corner of the layout's domain, wherever that is. Else as
 * datamover_save. */
int datamover_load(MPI_Comm comm, const char* path, const datamover_array* array,
                   const datamover_file_options* options);

/* ------------------------------------------------------------------ streams */

typedef struct datamover_stream datamover_stream;

/* Zeros and NULLs stand for the defaults. The same on all processes. */
typedef struct datamover_stream_options {
    int64_t pathways;   /* connections from each sending to each receiving process; 1 to 16; 0: 1 */
    const char* policy; /* where a consumer's queue is full: "block", "drop_oldest", "drop_newest";
                           NULL: "block" */
    int64_t queue_steps;    /* most steps that wait for a consumer; 0: 2 */
    int64_t queue_bytes;    /* most bytes that wait for a consumer, of all processes; 0: 1 GiB */
    int64_t consumers;      /* the first datamover_stream_send waits until so many are there; 0: it
                               does not wait, and what is sent before one is there goes to nobody */
    const char* token;      /* what consumers must know, of at least 16 characters; NULL: a token is
                               made for every address but the loopback's */
    double timeout_seconds; /* after which a wait for consumers gives up; 0: never */
    int no_shared_memory; /* not 0: also consumers on this machine get messages over connections */
    int every_step;       /* not 0: every step waits for `consumers`, not the first send alone */
} datamover_stream_options;

/* The number of a step that has none: the one after the last. */
#define DATAMOVER_NEXT_STEP (-1)

/* Opens the sending end of a stream: arrays go, step by step, to whoever listens
 * (`datamover.stream` of Python, `datamover stream`, a page). Process 0 listens at `address`,
 * "tcp://host:port" with an address of its machine that consumers can reach; port 0 for any that is
 * free. Consumers come and go at any time, and are served by threads of the library's that do not
 * call MPI. `options` may be NULL. Collective. DATAMOVER_IO where the address cannot be listened
 * at. */
int datamover_stream_open(datamover_stream** stream, MPI_Comm comm, const char* address,
                          const datamover_stream_options* options);
/* Sends an array under a name of 1 to 256 bytes. When it returns the array may be written again.
 * Arrays that are sent one after the other with the same `step` are one step; each of
 * DATAMOVER_NEXT_STEP is a step of its own. An array has the same type and layout in every step.
 * Collective. DATAMOVER_MISMATCH or DATAMOVER_WRONG_TYPE where it has not, or processes send
 * different ones; DATAMOVER_INVALID_ARGUMENT where it was sent in this step before;
 * DATAMOVER_TIMEOUT where consumers took nothing in time; DATAMOVER_INVALID_STATE after
 * datamover_stream_close. Of many steps that are alike and come within microseconds, processes may
 * be up to 16 ahead of one whose call fails, and return its error then. */
int datamover_stream_send(datamover_stream* stream, const char* name, const datamover_array* array,
                          int64_t step);
/* Nothing more comes of the step that was sent last; what is sent next is a step of its own.
 * Collective. */
int datamover_stream_end_step(datamover_stream* stream);
/* Where this process cannot make the next call of the stream, because its program has failed: has
 * the others return `code` (above 0) and `message` from the call that they make. Returns `code`.
 * Collective as the call in whose place it stands. */
int datamover_stream_refuse(datamover_stream* stream, int code, const char* message);
/* Waits until consumers have what was sent to them, or `timeout_seconds` (below 0: for ever), then
 * ends the stream. A second call does nothing. Collective. */
int datamover_stream_close(datamover_stream* stream, double timeout_seconds);
/* Where consumers connect, and what they must know ("" for nothing); both live as long as the
 * handle. */
int datamover_stream_address(const datamover_stream* stream, const char** address);
int datamover_stream_token(const datamover_stream* stream, const char** token);
/* Gives the handle back; a stream that was not closed ends at once. */
int datamover_stream_free(datamover_stream** stream);

/* Gives a few of many streams their buffers, while the others hold none. */
typedef struct datamover_stream_manager datamover_stream_manager;

/* Zeros and NULLs stand for the defaults. The same on all processes. */
typedef struct datamover_stream_manager_options {
    int64_t active;     /* most streams that hold buffers at a time; 0: 1 */
    const char* unit;   /* after what a stream gives way to others that wait: "step"; "array", where
                           consumers get each array as a step of its own; NULL: "step" */
    int64_t unit_bytes; /* with "step": after steps of so many bytes together; 0: after each */
    double stall_seconds; /* ends consumers that took nothing for so long while another stream waits
                             for their stream's place; 0: never */
} datamover_stream_manager_options;

/* `options` may be NULL. Collective. DATAMOVER_INVALID_ARGUMENT where they make no sense. */
int datamover_stream_manager_create(datamover_stream_manager** manager, MPI_Comm comm,
                                    const datamover_stream_manager_options* options);
/* Opens a stream as datamover_stream_open does, on the manager's communicator, under a name that no
 * other open one has. A call that sends waits, whatever the policy, until fewer than `active`
 * others hold what consumers have not taken. DATAMOVER_INVALID_STATE from it where that would be
 * for ever: all these are within a step that the calling thread has to complete or end. */
int datamover_stream_manager_open(datamover_stream** stream,
                                  const datamover_stream_manager* manager, const char* name,
                                  const char* address, const datamover_stream_options* options);
/* How many streams hold buffers now; known to process 0. Local. */
int datamover_stream_manager_active(const datamover_stream_manager* manager, int64_t* streams);
/* Gives the handle back; its streams stay. */
int datamover_stream_manager_free(datamover_stream_manager** manager);

typedef struct datamover_stream_source datamover_stream_source;

/* Zeros and NULLs stand for the defaults. The same on all processes. */
typedef struct datamover_source_options {
    const char* token;      /* what the stream demands; NULL: that of the environment variable
                               DATAMOVER_STREAM_TOKEN */
    double timeout_seconds; /* so long somebody who listens is waited for; 0: 30; below 0: ever */
    int64_t ahead;          /* steps that each process takes memory for, beyond the one that is
                               looked at; 1 to 64; 0: two, or as many as together have at most 8 MiB
                               for this process, at most 16 */
    int no_shared_memory;   /* not 0: also from processes of this machine messages come over
                               connections */
    int newest; /* not 0: the newest step only, whatever the stream's policy is; nobody waits */
} datamover_source_options;

/* What datamover_stream_next gives after the last step. */
#define DATAMOVER_NO_STEP (-1)

/* Connects to a stream that another program sends at `address`, "tcp://host:port". `options` may be
 * NULL. Collective. DATAMOVER_TIMEOUT where nobody listens; DATAMOVER_IO where somebody else does;
 * DATAMOVER_INVALID_STATE where the stream has ended or wants another token;
 * DATAMOVER_PEER_FAILED where it ends meanwhile, or serves as many as it can. */
int datamover_stream_connect(datamover_stream_source** source, MPI_Comm comm, const char* address,
                             const datamover_source_options* options);
/* Asks which arrays were sent so far, and gives their number, at least one; waits for the first, at
 * most `timeout_seconds` (below 0: for ever). Collective. DATAMOVER_TIMEOUT, and the errors of
 * datamover_stream_next. */
int datamover_stream_arrays(datamover_stream_source* source, double timeout_seconds,
                            int64_t* count);
/* The array of a number below that `count`: its name, its dtype (as NumPy writes it into a file, as
 * JSON: "\"<f8\""), the bytes of an element, and a new handle of the layout among the sending
 * processes; each may be NULL. The strings live until the next call of datamover_stream_arrays.
 * Local. DATAMOVER_OUT_OF_RANGE. */
int datamover_stream_array(const datamover_stream_source* source, int64_t number, const char** name,
                           const char** dtype, int64_t* elem_bytes, datamover_layout** layout);
/* Says once which `count` arrays are wanted, by name, and into which arrays this process's parts of
 * them are put in each step; these must live as long as the handle. Steps come from those on that
 * begin from now on. Collective. DATAMOVER_MISMATCH where processes want different arrays or a
 * layout is for other processes; DATAMOVER_INVALID_STATE where it was said before. */
int datamover_stream_subscribe(datamover_stream_source* source, int64_t count,
                               const char* const* names, const datamover_array* const* arrays);
/* The same of a process alone that wants all arrays whole, also those that are sent first later:
 * each comes as a step of its own, with the number of its step, and datamover_stream_whole_array
 * gives it. Collective. DATAMOVER_INVALID_ARGUMENT where several processes receive;
 * DATAMOVER_INVALID_STATE. */
int datamover_stream_subscribe_to_all(datamover_stream_source* source);
/* Where this process cannot make the next collective call of the source, because its program has
 * failed: as datamover_stream_refuse. */
int datamover_stream_source_refuse(datamover_stream_source* source, int code, const char* message);
/* Waits for the next step, at most `timeout_seconds` (below 0: for ever), puts its arrays where
 * they belong and gives its number; DATAMOVER_NO_STEP where the stream has ended. Each process gets
 * the same steps. Local. DATAMOVER_TIMEOUT; DATAMOVER_MISMATCH or DATAMOVER_WRONG_TYPE where the
 * arrays do not fit what is sent, or the stream has ended and sent only others;
 * DATAMOVER_PEER_FAILED where a sending process failed, or a receiving one was killed or left
 * without taking this step; DATAMOVER_IO where what came makes no sense, or was damaged again and
 * again. */
int datamover_stream_next(datamover_stream_source* source, double timeout_seconds, int64_t* step);
/* Whether an array was sent in the last step: 1 or 0. Local. */
int datamover_stream_has(const datamover_stream_source* source, const char* name, int* has);
/* The array that came in the last step, to a program that wants all: its name, dtype and bytes of
 * an element as datamover_stream_array's, its elements, the last dimension fastest, their bytes,
 * and a new handle of its layout on this process; each may be NULL. The strings and the elements
 * live until the next call of datamover_stream_next. Local. DATAMOVER_INVALID_STATE where there is
 * none. */
int datamover_stream_whole_array(const datamover_stream_source* source, const char** name,
                                 const char** dtype, int64_t* elem_bytes, void** elements,
                                 int64_t* nbytes, datamover_layout** layout);
/* Steps that the stream's policy has dropped for this program. Local. */
int datamover_stream_dropped(const datamover_stream_source* source, int64_t* steps);
/* Leaves the stream and gives the handle back. Local. The other processes of the communicator still
 * get every step that this one took; datamover_stream_next returns DATAMOVER_PEER_FAILED there in
 * place of a further one. */
int datamover_stream_disconnect(datamover_stream_source** source);

/* ------------------------------------------------------------------ relations: address to address
 */

typedef struct datamover_relation datamover_relation;

/* Element source[i] goes to element destination[i], 0 <= i < n, counted from the bases given later,
 * in elements of either size. Kept compactly; the order of the pairs is that of a message. O(n). */
int datamover_relation_from_pairs(datamover_relation** relation, int64_t n, const int64_t* source,
                                  const int64_t* destination, int64_t source_elem_bytes,
                                  int64_t destination_elem_bytes);
/* The same pairs kept as "pairs", "blocks", "runs", "dictionary", "product" or "offsets". */
int datamover_relation_encode(datamover_relation** encoded, const datamover_relation* relation,
                              const char* encoding);
/* Number of pairs. */
int datamover_relation_size(const datamover_relation* relation, int64_t* elems);
/* Bytes that the encoding occupies. */
int datamover_relation_nbytes(const datamover_relation* relation, int64_t* nbytes);
/* Name of the encoding; the string is static. */
int datamover_relation_encoding(const datamover_relation* relation, const char** encoding);
/* The bytes that a side touches, counted from its base: [begin, end). The functions below trust the
 * memory that they are given, but for NULL; this is what to check it against. */
int datamover_relation_bounds(const datamover_relation* relation, datamover_side side,
                              int64_t* begin_bytes, int64_t* end_bytes);
/* Every element from the memory at `source` to that at `destination`, which do not overlap.
 * DATAMOVER_INVALID_ARGUMENT, and nothing written, where elements have the same destination. */
int datamover_relation_copy(const datamover_relation* relation, const void* source,
                            void* destination);
/* The source's elements, in order, into `buffer`, of size x source_elem_bytes. */
int datamover_relation_gather(const datamover_relation* relation, const void* source, void* buffer);
/* `buffer`, of size x destination_elem_bytes, to the destination's elements, in order. Refuses
 * repeated destinations as copy does. */
int datamover_relation_scatter(const datamover_relation* relation, const void* buffer,
                               void* destination);
/* As copy, but converts where the types differ and combines with what is in place: `op` is
 * "replace", "add", "multiply", "min" or "max". All but "replace" allow repeated destinations.
 * DATAMOVER_WRONG_TYPE where a type has not the size of the relation's elements. */
int datamover_relation_update(const datamover_relation* relation, const void* source,
                              datamover_type source_type, void* destination,
                              datamover_type destination_type, const char* op);
/* The half that each side of a message needs: the sources going to 0, 1, 2, ..., and those going to
 * the destinations. `join` relates the k-th source of one to the k-th destination of the other;
 * DATAMOVER_MISMATCH where they hold different numbers of elements. */
int datamover_relation_split(const datamover_relation* relation, datamover_relation** source_half,
                             datamover_relation** destination_half);
int datamover_relation_join(datamover_relation** relation, const datamover_relation* source_half,
                            const datamover_relation* destination_half);

/* What is handed out below goes to memory of the caller's that holds `capacity` entries; the number
 * of entries there are is returned too, and DATAMOVER_OUT_OF_RANGE, with nothing written, where
 * they are more. To ask for the number alone: NULL and 0, with DATAMOVER_SUCCESS. */

/* The relation as bytes, for machines of this byte order. */
int datamover_relation_to_bytes(const datamover_relation* relation, void* bytes, int64_t capacity,
                                int64_t* length);
/* From such bytes; nothing in them is trusted. DATAMOVER_INVALID_ARGUMENT where they are others. */
int datamover_relation_from_bytes(datamover_relation** relation, const void* bytes, int64_t length);
/* A piece of contiguous memory: laid out as POSIX's struct iovec. */
typedef struct datamover_piece {
    void* data;
    size_t bytes;
} datamover_piece;
/* The contiguous pieces of a side, in order, of memory whose addresses count from `base`. */
int datamover_relation_iovec(const datamover_relation* relation, datamover_side side,
                             const void* base, datamover_piece* pieces, int64_t capacity,
                             int64_t* count);
/* A side as a committed MPI datatype, displacements counted from its base; to be freed with
 * MPI_Type_free. `element` is the type of an element, MPI_DATATYPE_NULL for as many bytes. */
int datamover_relation_datatype(const datamover_relation* relation, datamover_side side,
                                MPI_Datatype element, MPI_Datatype* datatype);
/* Put: a message that carries the elements and their destinations, for a receiver that knows
 * neither. It is written into [begin_bytes, end_bytes) of `destination`, or not at all. */
int datamover_relation_put_message(const datamover_relation* relation, const void* source,
                                   void* message, int64_t capacity, int64_t* length);
int datamover_accept_put(const void* message, int64_t length, void* destination,
                         int64_t begin_bytes, int64_t end_bytes);
/* Get: a request for the sources of a relation, and the answer, which scatter takes apart. Reads
 * within [begin_bytes, end_bytes) of `source`. */
int datamover_relation_get_request(const datamover_relation* relation, void* request,
                                   int64_t capacity, int64_t* length);
int datamover_answer_get(const void* request, int64_t request_length, const void* source,
                         int64_t begin_bytes, int64_t end_bytes, void* answer, int64_t capacity,
                         int64_t* length);
int datamover_relation_free(datamover_relation** relation);

/* ------------------------------------------------------------------ ScaLAPACK's matrices */

/* A process grid, in the order in which BLACS numbers it. */
typedef struct datamover_process_grid {
    int nprow;
    int npcol;
    int column_major;     /* not 0: position (i, j) is number i + j * nprow, else i * npcol + j */
    const int64_t* ranks; /* the rank at each position; NULL: 0, 1, 2, ... */
} datamover_process_grid;

/* The block-cyclic layout of a dense matrix's descriptor {1, CTXT, M, N, MB, NB, RSRC, CSRC, LLD};
 * CTXT and LLD are not looked at. */
int datamover_layout_from_descriptor(datamover_layout** layout, const int descriptor[9],
                                     const datamover_process_grid* grid, int64_t nprocs);
/* The descriptor of rank's part of a two-dimensional block-cyclic layout. `lld` below what the rank
 * needs (0, say) stands for the least. */
int datamover_layout_to_descriptor(const datamover_layout* layout, int64_t rank, int context,
                                   int lld, int descriptor[9]);
/* The local matrix `data` of process `rank`, column-major with the descriptor's LLD, as an array of
 * the layout that was made from the descriptor. `data` is not looked at on a rank outside the grid.
 */
int datamover_array_of_matrix(datamover_array** array, const datamover_layout* layout, int64_t rank,
                              const int descriptor[9], datamover_type type, int64_t elem_bytes,
                              void* data);
/* The same, for memory that is only read: it can be a source, not a destination. */
int datamover_array_of_const_matrix(datamover_array** array, const datamover_layout* layout,
                                    int64_t rank, const int descriptor[9], datamover_type type,
                                    int64_t elem_bytes, const void* data);

/* sub(B) = sub(A), as ScaLAPACK's p?gemr2d: A(ia : ia + m - 1, ja : ja + n - 1) goes to
 * B(ib : ib + m - 1, jb : jb + n - 1), 1-based, between matrices dealt to different grids of one
 * communicator. Elements have `elem_bytes` bytes. All processes give the same sizes, sections,
 * descriptors (but LLD, and CTXT is not looked at) and grids; `a` and `b` are not looked at outside
 * their grids. Collective, also where m or n is 0, which moves nothing. The movers of the last
 * calls stay with the communicator (at most 16, and 256 MiB of buffers; the very last whatever its
 * size), so that a call that repeats one of them, also in its addresses, plans nothing. */
int datamover_gemr2d(MPI_Comm comm, int64_t elem_bytes, int m, int n, const void* a, int ia, int ja,
                     const int desca[9], const datamover_process_grid* grid_a, void* b, int ib,
                     int jb, const int descb[9], const datamover_process_grid* grid_b);

/* One matrix as one process knows it, in the terms of BLACS. */
typedef struct datamover_matrix {
    void* data;            /* the local matrix; not looked at outside the grid */
    const int* descriptor; /* 9 entries, of which DTYPE and CTXT are not looked at */
    int row;               /* of the section's first element, from 1 */
    int column;
    int nprow; /* the matrix's grid; 0 where this process knows nothing of it: a NULL descriptor */
    int npcol;
    int grid_row; /* this process's place in the grid; -1 outside */
    int grid_column;
} datamover_matrix;

/* What a move between matrices tells besides its code; `pairs` is NULL or has room for `capacity`
 * entries, of which as many as fit are written. */
typedef struct datamover_matrix_outcome {
    int wrong_argument; /* as datamover_gemr2d_argument counts; the same on all processes */
    int planned;        /* 1 where the move was planned now, 0 where it repeated an earlier one */
    datamover_mover_pair* pairs;
    int64_t capacity;
    int64_t count; /* of pairs, 0 where `pairs` is NULL */
} datamover_matrix_outcome;

/* datamover_gemr2d for processes that know only their own place in the grids, with the options of a
 * mover: sub(B) = sub(A), or with `transposed` not 0 sub(A)^T, where sub(B) has m x n elements; or
 * op, alpha and beta of `options` (may be NULL). `outcome` may be NULL. Collective. */
int datamover_matrix_move(MPI_Comm comm, datamover_type type, int64_t elem_bytes, int m, int n,
                          const datamover_matrix* a, const datamover_matrix* b, int transposed,
                          const datamover_mover_options* options,
                          datamover_matrix_outcome* outcome);

/* The trapezoid of sub(A) goes to that of sub(B), as ScaLAPACK's p?trmr2d: of the m x n section the
 * part above its diagonal (`uplo` 'U') or below ('L'), with the diagonal (`diag` 'N') or without
 * ('U'). The diagonal begins at the upper left and ends at the lower right corner of the square
 * that is left when the first m - n rows ('U': they are in the trapezoid) or n - m columns ('L')
 * are taken away. Planning takes time and memory by the number of columns. Else as
 * datamover_matrix_move. */
int datamover_trapezoid_move(MPI_Comm comm, int64_t elem_bytes, char uplo, char diag, int m, int n,
                             const datamover_matrix* a, const datamover_matrix* b,
                             datamover_matrix_outcome* outcome);

/* How much stays with each communicator for repeated moves between matrices: the movers of the last
 * `movers` calls (0 to 64; 16 at first), with at most `buffer_bytes` of buffers (256 MiB at first),
 * the very last whatever its size unless `movers` is 0. In effect from the next call on. The same
 * on all processes. Local. */
int datamover_matrix_cache_limit(int movers, int64_t buffer_bytes);
/* Drops what is kept with `comm`. All processes drop at the same place of the program. Local. */
int datamover_matrix_cache_drop(MPI_Comm comm);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif
