! SPDX-License-Identifier: BSD-3-Clause
! The Fortran interface of datamover.
!
! Indices count as in Fortran: index ranges are lo:hi and include both ends, and a distributed array
! of `shape` has the indices 1 to shape(d). Blocks and dimensions count from 1; ranks are MPI's,
! from 0. Vectors of indices and extents are integers of 32 or of 64 bits. Pass the integer handle
! of a communicator: `comm` with `use mpi`, `comm%MPI_VAL` with `use mpi_f08`.
!
! Every call has the arguments `stat=` (0, or a code such as datamover_out_of_range) and `errmsg=`.
! A call without `stat` that fails stops the program with the message. Objects are freed with
! `free`, and must not be assigned to each other.
module datamover
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64
    implicit none
    private

    ! The codes of C's datamover_code.
    integer, parameter, public :: datamover_success = 0, datamover_invalid_argument = 1, &
        datamover_out_of_range = 2, datamover_wrong_type = 3, datamover_mismatch = 4, &
        datamover_no_memory = 5, datamover_io = 6, datamover_mpi = 7, datamover_peer_failed = 8, &
        datamover_timeout = 9, datamover_invalid_state = 10, datamover_unsupported = 11

    ! A layout: the owners of all elements.
    type, public :: datamover_layout
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, public :: block_cyclic
        procedure, public :: floor_plan
        procedure, public :: with_owners
        procedure, public :: uniform
        procedure, public :: num_blocks
        procedure, public :: owner
        procedure, public :: blocks_of
        procedure, public :: block_extents
        procedure, public :: block_region
        procedure, public :: local_shape
        procedure, public :: global_index
        procedure, public :: free => free_layout
    end type

    ! A plan: the sections to move.
    type, public :: datamover_plan
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, public :: redistribute
        procedure, public :: halo
        procedure, public :: between
        procedure, public :: copy
        procedure, public :: merge => merge_plans
        procedure, public :: reverse
        procedure, public :: adjoint
        procedure, public :: compose
        procedure, public :: save => save_plan
        procedure, public :: load => load_plan
        procedure, public :: free => free_plan
    end type

    ! The memory of an array's elements: datamover_memory(a), for attach. The array may be a section
    ! or a component of records, `a(::2, :)` or `p(:)%mass`; nothing is copied. It must have the
    ! attribute `asynchronous` or `target`, and must outlive what is bound to it. If p is
    ! allocatable or a pointer, write `p(:)%mass`, not `p%mass`, because gfortran 12 makes p itself
    ! point to the component then.
    type, bind(c), public :: datamover_memory
        private
        type(c_ptr) :: first
        integer(c_int64_t) :: elem_bytes
        integer(c_int) :: elem_type, dims
        integer(c_int64_t) :: extents(15), strides_bytes(15)
    end type

    ! Arrays of the program, each array a block of a layout.
    type, public :: datamover_array
        private
        type(c_ptr) :: attached = c_null_ptr
    contains
        procedure, public :: attach
        procedure, public :: detach
        procedure, public :: save => save_array
        procedure, public :: load => load_array
    end type

    ! A mover: executes a plan.
    type, public :: datamover_mover
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, private :: bind_one
        procedure, private :: bind_several
        generic, public :: bind => bind_one, bind_several
        procedure, public :: start
        procedure, public :: test
        procedure, public :: wait => wait_for
        procedure, public :: move
        procedure, public :: free => free_mover
        procedure, public :: give_up
    end type

    ! Sends arrays, step by step, to other programs while this one runs.
    type, public :: datamover_stream
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, public :: open => open_stream
        procedure, public :: address => stream_address
        procedure, public :: token => stream_token
        procedure, public :: send
        procedure, public :: end_step
        procedure, public :: close => close_stream
        procedure, public :: free => free_stream
    end type

    ! Receives, step by step, the arrays that another program sends.
    type, public :: datamover_stream_source
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, private :: subscribe_one
        procedure, private :: subscribe_several
        generic, public :: subscribe => subscribe_one, subscribe_several
        procedure, public :: connect
        procedure, public :: next => next_step
        procedure, public :: has => has_array
        procedure, public :: free => free_source
    end type

    ! Moves each element of an array to its target process.
    type, public :: datamover_distribution
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, public :: to_ranks
        procedure, public :: by_keys
        procedure, public :: received
        procedure, public :: start => start_distribution
        procedure, public :: test => test_distribution
        procedure, public :: wait => wait_distribution
        procedure, public :: move => move_distribution
        procedure, public :: reverse => reverse_distribution
        procedure, public :: free => free_distribution
    end type

    ! Maps elements to target processes by their keys, or by their positions in space.
    type, public :: datamover_target_map
        private
        type(c_ptr) :: handle = c_null_ptr
    contains
        procedure, public :: modulo => modulo_map
        procedure, public :: block => block_map
        procedure, public :: splitters
        procedure, public :: cells
        procedure, public :: ranks
        procedure, public :: free => free_target_map
    end type

    ! The rank that `ranks` returns for a key that has no target; a distribution rejects it.
    integer(int64), parameter, public :: datamover_no_target = -2

    ! The number that `next` of a source returns after the last step.
    integer(int64), parameter, public :: datamover_no_step = -1

    interface datamover_memory
        ! Implemented in C, because a Fortran function would get copies of some arrays.
        function c_memory(a) bind(c, name='datamover_fortran_memory') result(memory)
            import :: datamover_memory
            type(*), dimension(..), asynchronous, target :: a
            type(datamover_memory) :: memory
        end function
    end interface

    ! Procedures of the types above.
    interface

        ! ------------------------------------------------------------------ layouts

        ! Make a layout of an array of `shape` over nprocs processes in an HPF distribution such as
        ! '(block, cyclic(64), *)'. `grid` is the number of processes per dimension (default:
        ! chosen). With column_major_grid, ranks are assigned to the grid with its first dimension
        ! fastest. Local.
        module subroutine block_cyclic(self, shape, distribution, nprocs, grid, column_major_grid, stat, &
            errmsg)
            class(datamover_layout), intent(inout) :: self
            class(*), intent(in) :: shape(:)
            character(*), intent(in) :: distribution
            integer, intent(in) :: nprocs
            class(*), intent(in), optional :: grid(:)
            logical, intent(in), optional :: column_major_grid
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make a layout of the blocks lo(:, i):hi(:, i), including both ends, each with the rank of
        ! its owner. Lower bounds may have any value. Local.
        module subroutine floor_plan(self, lo, hi, owners, nprocs, stat, errmsg)
            class(datamover_layout), intent(inout) :: self
            integer, intent(in) :: lo(:, :), hi(:, :), owners(:), nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make a layout of the blocks of `blocks`, a floor plan, with other owners, one per block,
        ! for example after rebalancing the load. Local.
        module subroutine with_owners(self, blocks, owners, nprocs, stat, errmsg)
            class(datamover_layout), intent(inout) :: self
            type(datamover_layout), intent(in) :: blocks
            integer, intent(in) :: owners(:), nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make a layout that divides the indices lo:hi into `grid` blocks per dimension. Block i
        ! belongs to rank mod(i - 1, nprocs). Blocks are numbered with the last dimension fastest.
        ! Local.
        module subroutine uniform(self, lo, hi, grid, nprocs, stat, errmsg)
            class(datamover_layout), intent(inout) :: self
            class(*), intent(in) :: lo(:), hi(:), grid(:)
            integer, intent(in) :: nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the number of blocks of the layout, of all ranks together.
        module subroutine num_blocks(self, count, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer(int64), intent(out) :: count
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the rank that owns a block.
        module subroutine owner(self, block, rank, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: block
            integer, intent(out) :: rank
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the blocks of a rank, ascending.
        module subroutine blocks_of(self, rank, blocks, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: rank
            integer, allocatable, intent(out) :: blocks(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the extents of a block's local array, without ghosts.
        module subroutine block_extents(self, block, extents, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: block
            integer, allocatable, intent(out) :: extents(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Get the indices lo:hi that a block holds, including both ends; hi is lo - 1 for an empty
        ! block. The layout is a floor plan, or block-cyclic with at most one block per process
        ! along each dimension.
        module subroutine block_region(self, block, lo, hi, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: block
            integer, allocatable, intent(out) :: lo(:), hi(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the extents of a rank's local array, of a block-cyclic layout; zeros for a rank
        ! without any.
        module subroutine local_shape(self, rank, extents, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: rank
            integer, allocatable, intent(out) :: extents(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the index in the whole array of a rank's local element, of a block-cyclic layout.
        module subroutine global_index(self, rank, local, global, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: rank
            class(*), intent(in) :: local(:)
            integer(int64), allocatable, intent(out) :: global(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the layout; plans made from it remain valid.
        module subroutine free_layout(self)
            class(datamover_layout), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ plans

        ! Make a plan that moves every index that both layouts hold from `source` to the same index
        ! of `destination`, whatever the bounds of their domains. With sections, source_lo:source_hi
        ! is moved to destination_lo:destination_hi, of the same shape, whatever the indices.
        ! Dimension k of the destination is dimension axes(k) of the source (a transpose: [2, 1]).
        ! If the destination needs an index that no block of the source holds, the error is
        ! datamover_mismatch; with partial = .true., such elements are left unchanged. Local.
        module subroutine redistribute(self, source, destination, source_lo, source_hi, destination_lo, &
            destination_hi, axes, partial, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_layout), intent(in) :: source, destination
            class(*), intent(in), optional :: source_lo(:), source_hi(:), destination_lo(:), &
                destination_hi(:)
            integer, intent(in), optional :: axes(:)
            logical, intent(in), optional :: partial
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make a plan that fills the ghosts of a layout's blocks, `lower` and `upper` elements deep
        ! on either side of each dimension. The indices periodic_lo:periodic_hi wrap around, in the
        ! dimensions in which `wraps` is true (default: all). corners = .false.: faces only. Local.
        module subroutine halo(self, layout, lower, upper, periodic_lo, periodic_hi, wraps, corners, stat, &
            errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_layout), intent(in) :: layout
            class(*), intent(in) :: lower(:), upper(:)
            class(*), intent(in), optional :: periodic_lo(:), periodic_hi(:)
            logical, intent(in), optional :: wraps(:), corners
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make a plan between two layouts that moves nothing yet, for `copy`. Local.
        module subroutine between(self, source, destination, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_layout), intent(in) :: source, destination
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Add one term: the section source_lo:source_hi of one block, in the indices of the whole
        ! array, is moved to that of another. Sections may extend into ghosts. Local.
        module subroutine copy(self, source_block, source_lo, source_hi, destination_block, destination_lo, &
            destination_hi, axes, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            integer, intent(in) :: source_block, destination_block
            class(*), intent(in) :: source_lo(:), source_hi(:), destination_lo(:), destination_hi(:)
            integer, intent(in), optional :: axes(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make a plan of the terms of both, in order; both must be between the same layouts. Local.
        module subroutine merge_plans(self, a, b, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: a, b
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make the plan in the opposite direction of `forth`. Local.
        module subroutine reverse(self, forth, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: forth
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make the adjoint of `forth`: each pair of elements in the opposite direction, also if
        ! several blocks hold an element. All blocks that received an element send it back, so that
        ! a mover with op='add' sums it. Local.
        module subroutine adjoint(self, forth, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: forth
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Make one plan with the effect of `first` and then `next`. The destination layout of the
        ! first must be the source layout of the next. Not for index lists or for sections that
        ! change their shape. Local.
        module subroutine compose(self, first, next, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: first, next
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Write layouts and terms to a file. The file appears at its path only once it is complete.
        ! Local.
        module subroutine save_plan(self, path, stat, errmsg)
            class(datamover_plan), intent(in) :: self
            character(*), intent(in) :: path
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Read a plan from such a file. Local.
        module subroutine load_plan(self, path, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            character(*), intent(in) :: path
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the plan; movers made from it remain valid.
        module subroutine free_plan(self)
            class(datamover_plan), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ arrays

        ! Attach `memory` as the memory of a block of `layout`, with `ghost_lower` and `ghost_upper`
        ! ghosts on either side in it. Call it once for each block of this process. A process
        ! without blocks passes block = 0, and only the element type of its memory is used. The
        ! layout may be freed immediately. Local.
        module subroutine attach(self, layout, memory, block, ghost_lower, ghost_upper, stat, errmsg)
            class(datamover_array), intent(inout) :: self
            type(datamover_layout), intent(in) :: layout
            type(datamover_memory), intent(in) :: memory
            integer, intent(in) :: block
            class(*), intent(in), optional :: ghost_lower(:), ghost_upper(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Detach all memory; bound movers keep theirs.
        module subroutine detach(self)
            class(datamover_array), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ movers

        ! Bind a plan to a source and a destination, for any number of rounds. `op` ('replace',
        ! 'add', 'multiply', 'min', 'max') combines received elements with those in place.
        ! `transport` and `check` are as in datamover.h. Collective over `comm`.
        module subroutine bind_one(self, comm, plan, source, destination, op, transport, check, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(in) :: comm
            type(datamover_plan), intent(in) :: plan
            type(datamover_array), intent(in) :: source, destination
            character(*), intent(in), optional :: op, transport
            logical, intent(in), optional :: check
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Bind a plan to several arrays, sources(k) to destinations(k). The elements that one
        ! process sends to another share one message.
        module subroutine bind_several(self, comm, plan, sources, destinations, op, transport, check, stat, &
            errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(in) :: comm
            type(datamover_plan), intent(in) :: plan
            type(datamover_array), intent(in) :: sources(:), destinations(:)
            character(*), intent(in), optional :: op, transport
            logical, intent(in), optional :: check
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Begin a round, without waiting for other processes. Until wait returns, the program must
        ! write neither source nor destination, and must not read the destination.
        module subroutine start(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Do the work that can be done now; `done` is true if the round is complete.
        module subroutine test(self, done, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            logical, intent(out) :: done
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Wait until the destination is complete here and the source may be overwritten. After
        ! `timeout` seconds the error is datamover_timeout, and the mover is still in flight.
        module subroutine wait_for(self, timeout, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Start and wait.
        module subroutine move(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the mover. While it is in flight, the error is datamover_invalid_state, and nothing
        ! is freed.
        module subroutine free_mover(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the mover, also in flight: the other processes then get datamover_peer_failed from
        ! their waits.
        module subroutine give_up(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! ------------------------------------------------------------------ files

        ! Write the array to a new flat file: `path` ends in .npy, .raw, .bin or .dat, or `format`
        ! is 'npy' or 'raw'. Elements are stored with the last dimension fastest, as in C and NumPy,
        ! whatever the layout; ghosts are not written. The file appears at its path only once it is
        ! complete; with `overwrite`, it replaces an existing one. `ranks` write it (default: all),
        ! each with at most `max_bytes` of additional memory (default: 128 MiB). datamover_io if the
        ! file exists, or cannot be written. Collective over `comm`.
        module subroutine save_array(self, comm, path, format, overwrite, ranks, max_bytes, stat, errmsg)
            class(datamover_array), intent(in) :: self
            integer, intent(in) :: comm
            character(*), intent(in) :: path
            character(*), intent(in), optional :: format
            logical, intent(in), optional :: overwrite
            integer, intent(in), optional :: ranks(:)
            integer(int64), intent(in), optional :: max_bytes
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Read the array, without its ghosts, from such a file, on any number of processes and in
        ! any layout. Numbers are converted, but not reals to integers. `ranks` read it; otherwise
        ! as save. datamover_mismatch if a .npy file has another shape, datamover_wrong_type if it
        ! has another type, datamover_io if a raw file has another size. Collective over `comm`.
        module subroutine load_array(self, comm, path, format, ranks, max_bytes, stat, errmsg)
            class(datamover_array), intent(in) :: self
            integer, intent(in) :: comm
            character(*), intent(in) :: path
            character(*), intent(in), optional :: format
            integer, intent(in), optional :: ranks(:)
            integer(int64), intent(in), optional :: max_bytes
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! ------------------------------------------------------------------ streams: sending

        ! Open a stream. Process 0 listens at `address`, 'tcp://host:port'; port 0: any free port.
        ! Consumers may connect and leave at any time. The first `send` waits for `consumers` of
        ! them. `policy` is the action if a consumer's queue is full: 'block' (default) or
        ! 'drop_oldest'. A queue holds `queue_steps` steps (default: 2) and `queue_bytes` bytes of all processes (default: 1 GiB). Waits for
        ! consumers end after `timeout` seconds (default: never). `token` is the secret that
        ! consumers must present, 16 to 256 printable ASCII characters; by default, one is made,
        ! which consumers of the same user on the machine of process 0 find by themselves. With
        ! `open` everybody may connect. Each process of a consumer has `pathways` connections to each process
        ! here (default: 1); without `shared_memory`, those on this machine use them too.
        ! datamover_io if the address cannot be listened at. Collective over `comm`.
        module subroutine open_stream(self, comm, address, consumers, policy, queue_steps, queue_bytes, &
            timeout, token, pathways, shared_memory, open, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            integer, intent(in) :: comm
            character(*), intent(in) :: address
            integer, intent(in), optional :: consumers
            character(*), intent(in), optional :: policy
            integer, intent(in), optional :: queue_steps
            integer(int64), intent(in), optional :: queue_bytes
            real(c_double), intent(in), optional :: timeout
            character(*), intent(in), optional :: token
            integer, intent(in), optional :: pathways
            logical, intent(in), optional :: shared_memory, open
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the address that consumers connect to. Local.
        module subroutine stream_address(self, address, stat, errmsg)
            class(datamover_stream), intent(in) :: self
            character(:), allocatable, intent(out) :: address
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the token that consumers must present; '' if everybody may connect. Local.
        module subroutine stream_token(self, token, stat, errmsg)
            class(datamover_stream), intent(in) :: self
            character(:), allocatable, intent(out) :: token
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Send an array under a name of 1 to 256 characters; then it may be written again. Arrays
        ! sent one after the other with the same `step`, an integer from 0 of 32 or 64 bits, are one
        ! step; without `step`, an array is a step of its own. An array must have the same type and
        ! layout in every step, otherwise the error is datamover_wrong_type or datamover_mismatch.
        ! datamover_timeout if consumers took nothing in time. Collective.
        module subroutine send(self, name, array, step, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            character(*), intent(in) :: name
            type(datamover_array), intent(in) :: array
            class(*), intent(in), optional :: step
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! End the step that was sent last. Collective.
        module subroutine end_step(self, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Wait until consumers have received what was sent, at most `timeout` seconds (default: 30;
        ! below 0: forever), and end the stream. A second call does nothing. Collective.
        module subroutine close_stream(self, timeout, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the stream; one that was not closed ends immediately. Local.
        module subroutine free_stream(self)
            class(datamover_stream), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ streams: receiving

        ! Connect to the stream that another program sends at `address`, 'tcp://host:port', waiting
        ! at most `timeout` seconds for it (default: 30; below 0: forever). `token` is the token
        ! that it requires; by default that of the environment variable DATAMOVER_STREAM_TOKEN,
        ! or the one that a stream of the same user on this machine has stored. Memory is allocated for `ahead` steps (1 to 64; default: by their size) beyond the current
        ! one. `newest`: receive only the newest step; no sender waits. Without `shared_memory`,
        ! messages on one machine also use connections. datamover_timeout if no program listens,
        ! datamover_io if another kind of program does, datamover_invalid_argument if the
        ! stream requires another token, datamover_invalid_state if it has ended. Collective over `comm`.
        module subroutine connect(self, comm, address, token, timeout, ahead, newest, shared_memory, stat, &
            errmsg)
            class(datamover_stream_source), intent(inout) :: self
            integer, intent(in) :: comm
            character(*), intent(in) :: address
            character(*), intent(in), optional :: token
            real(c_double), intent(in), optional :: timeout
            integer, intent(in), optional :: ahead
            logical, intent(in), optional :: newest, shared_memory
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Select, once, the array to receive, by its name, and the memory for this process's part of
        ! it in each step, in any layout. The memory must outlive the source. The first step
        ! received is the next one to begin after the stream has received the selection.
        ! datamover_mismatch if processes select different arrays; datamover_invalid_state if the
        ! array was already selected. Collective.
        module subroutine subscribe_one(self, name, array, stat, errmsg)
            class(datamover_stream_source), intent(inout) :: self
            character(*), intent(in) :: name
            type(datamover_array), intent(in) :: array
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Select several arrays, names(k) into arrays(k).
        module subroutine subscribe_several(self, names, arrays, stat, errmsg)
            class(datamover_stream_source), intent(inout) :: self
            character(*), intent(in) :: names(:)
            type(datamover_array), intent(in) :: arrays(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Wait for the next step, at most `timeout` seconds (default: forever), store its arrays and
        ! return its number: the same on each process. datamover_no_step if the stream has ended, or
        ! the call fails. datamover_timeout; datamover_mismatch or datamover_wrong_type if arrays do
        ! not fit those sent; datamover_peer_failed if a sending process failed, or a receiving one
        ! was killed or left without taking this step; datamover_io if the received data was
        ! damaged. Local.
        module subroutine next_step(self, step, timeout, stat, errmsg)
            class(datamover_stream_source), intent(inout) :: self
            integer(int64), intent(out) :: step
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return whether an array was sent in the step that `next` returned last. Local.
        module subroutine has_array(self, name, sent, stat, errmsg)
            class(datamover_stream_source), intent(in) :: self
            character(*), intent(in) :: name
            logical, intent(out) :: sent
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Leave the stream and free the source. The other processes still get every step that this
        ! one took; for further steps, next_step fails there. Local.
        module subroutine free_source(self)
            class(datamover_stream_source), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ distributions

        ! Plan a distribution: element i is moved to process ranks(i), or to all of ranks(:, i); -1
        ! drops it. `ranks` are integers of any kind, read once: datamover_memory(ranks).
        ! `max_bytes` limits the extra memory of a move; `method` is as in distribute.h. Collective
        ! over `comm`.
        module subroutine to_ranks(self, comm, ranks, max_bytes, method, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            integer, intent(in) :: comm
            type(datamover_memory), intent(in) :: ranks
            integer(int64), intent(in), optional :: max_bytes
            character(*), intent(in), optional :: method
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Plan a distribution to the processes that `map` gives for the keys of the elements:
        ! datamover_memory(keys), as for the map's `ranks`. Otherwise as to_ranks.
        module subroutine by_keys(self, comm, map, keys, max_bytes, method, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            integer, intent(in) :: comm
            type(datamover_target_map), intent(in) :: map
            type(datamover_memory), intent(in) :: keys
            integer(int64), intent(in), optional :: max_bytes
            character(*), intent(in), optional :: method
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the number of elements that arrive here.
        module subroutine received(self, count, stat, errmsg)
            class(datamover_distribution), intent(in) :: self
            integer(int64), intent(out) :: count
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Begin to move arrays, without waiting for other processes. `columns` and `results` are
        ! each one datamover_memory(x), or a vector of as many. The last dimension of an array
        ! counts the elements: in x(3, n), three numbers are one element. Results must have room for
        ! what arrives, without gaps. The program must write neither until wait returns. If the
        ! arguments are invalid on any process, wait returns the error on all, and nothing is moved.
        module subroutine start_distribution(self, columns, results, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            type(datamover_memory), intent(in) :: columns(..), results(..)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Do the work that can be done now; `done` is true if the move is complete.
        module subroutine test_distribution(self, done, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            logical, intent(out) :: done
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Wait until everything has arrived here and the columns may be changed. After `timeout`
        ! seconds the error is datamover_timeout, and the move is still in flight.
        module subroutine wait_distribution(self, timeout, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Start and wait, by the method of `to_ranks`. Collective.
        module subroutine move_distribution(self, columns, results, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            type(datamover_memory), intent(in) :: columns(..), results(..)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return values, one for each element that arrived, to the processes that the elements came
        ! from. If an element had several ranks, `op` ('replace', 'add', 'multiply', 'min', 'max')
        ! combines its values; an element without a rank gets zero. Collective.
        module subroutine reverse_distribution(self, values, results, op, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            type(datamover_memory), intent(in) :: values(..), results(..)
            character(*), intent(in), optional :: op
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the distribution, and abandon a move in flight.
        module subroutine free_distribution(self)
            class(datamover_distribution), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ targets by keys

        ! Map integer keys to the rank modulo(key, nprocs). Local, like all procedures of a map.
        module subroutine modulo_map(self, nprocs, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            integer, intent(in) :: nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Map integer keys from 1 to `total`, in blocks of ceiling(total / nprocs), HPF's BLOCK;
        ! other keys have no target.
        module subroutine block_map(self, total, nprocs, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            integer(int64), intent(in) :: total
            integer, intent(in) :: nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Map keys below values(1) to rank 0, those below values(2) to rank 1, and so on. There is
        ! one process more than values. The values ascend: integers of 32 or 64 bits (compared
        ! exactly), or double precision.
        module subroutine splitters(self, values, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            class(*), intent(in) :: values(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Map positions in the box from `lo` to `hi`, which is divided into numbers(d) equal cells
        ! in each dimension, to the process of the cell. `order` is 'row_major' (the last dimension
        ! fastest), 'morton' or 'hilbert'. `owners` holds the rank of every cell along it, -1 to
        ! drop; by default, processes get equal parts. `periodic`: positions outside are wrapped;
        ! otherwise they belong to the nearest cell.
        module subroutine cells(self, lo, hi, numbers, nprocs, order, owners, periodic, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            real(c_double), intent(in) :: lo(:), hi(:)
            class(*), intent(in) :: numbers(:)
            integer, intent(in) :: nprocs
            character(*), intent(in), optional :: order
            class(*), intent(in), optional :: owners(:)
            logical, intent(in), optional :: periodic
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Return the rank of every element, or datamover_no_target. Keys are numbers of any type,
        ! datamover_memory(keys): one per element, or three for keys(3, n).
        module subroutine ranks(self, keys, to, stat, errmsg)
            class(datamover_target_map), intent(in) :: self
            type(datamover_memory), intent(in) :: keys
            integer(int64), intent(out) :: to(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Free the map; distributions made with it remain valid.
        module subroutine free_target_map(self)
            class(datamover_target_map), intent(inout) :: self
        end subroutine
    end interface

    ! For the submodules.
    ! C functions that free a handle, of any kind.
    abstract interface
        function c_free_function(handle) bind(c) result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: handle
            integer(c_int) :: code
        end function
    end interface

    interface
        ! Return the code and its message to the caller, or stop if the caller did not pass `stat`.
        module subroutine conclude(code, stat, errmsg)
            integer(c_int), intent(in) :: code
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Replace a handle with the one that a call made, and conclude the call.
        module subroutine replace(handle, free, made, code, stat, errmsg)
            type(c_ptr), intent(inout) :: handle
            procedure(c_free_function) :: free
            type(c_ptr), intent(in) :: made
            integer(c_int), intent(in) :: code
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        module function last_message() result(message)
            character(:), allocatable :: message
        end function

        ! Copy a C string.
        module function text_from(at) result(text)
            type(c_ptr), intent(in) :: at
            character(:), allocatable :: text
        end function

        module function refused(code, message) result(same)
            integer, intent(in) :: code
            character(*), intent(in) :: message
            integer(c_int) :: same
        end function

        module function text_of(number) result(text)
            integer, intent(in) :: number
            character(:), allocatable :: text
        end function

        ! Convert indices of either size to 64 bits, with `shift` added. Fails for other types, and
        ! if they are not `count` (below 0: any number).
        module subroutine widen(values, shift, count, name, wide, code)
            class(*), intent(in) :: values(:)
            integer, intent(in) :: shift, count
            character(*), intent(in) :: name
            integer(c_int64_t), allocatable, intent(out) :: wide(:)
            integer(c_int), intent(inout) :: code
        end subroutine

        ! Convert a text to a C string; if none was given, make a placeholder for which text_at
        ! returns NULL.
        module function c_text(text) result(characters)
            character(*), intent(in), optional :: text
            character(:), allocatable :: characters
        end function

        module function text_at(characters, given) result(at)
            character(*), target, intent(in) :: characters
            logical, intent(in) :: given
            type(c_ptr) :: at
        end function

        ! Convert dimensions from 1 to dimensions from 0.
        module function axes_from_0(axes) result(from_0)
            integer, intent(in) :: axes(:)
            integer(c_int) :: from_0(size(axes))
        end function

        module function dims_of(layout, code) result(dims)
            type(c_ptr), intent(in) :: layout
            integer(c_int), intent(inout) :: code
            integer(c_int) :: dims
        end function

        ! Make a handle of the attached memory, for free_array; none if `code` is an error.
        module subroutine make_array(array, handle, code)
            class(datamover_array), intent(in) :: array
            type(c_ptr), intent(out) :: handle
            integer(c_int), intent(inout) :: code
        end subroutine

        impure elemental module subroutine free_array(handle)
            type(c_ptr), intent(inout) :: handle
        end subroutine
    end interface

end module
