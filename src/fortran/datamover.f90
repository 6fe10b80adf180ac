! SPDX-License-Identifier: BSD-3-Clause
! The Fortran interface of datamover.
!
! Indices count as in Fortran: index ranges are lo:hi with both ends in them, a distributed array of
! `shape` has the indices 1 to shape(d), blocks and dimensions count from 1; ranks are MPI's, from 0.
! Vectors of indices and extents are integers of 32 or of 64 bits. Communicators are given by their
! integer: `comm` with `use mpi`, `comm%MPI_VAL` with `use mpi_f08`.
!
! Every call takes `stat=` (0, or a code such as datamover_out_of_range) and `errmsg=`; without
! `stat` a call that fails stops the program with the message. Objects are freed with `free`, and
! are not assigned to each other.
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

    ! Who owns what.
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

    ! Which section goes where.
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

    ! Where an array's elements lie: datamover_memory(a), for attach. The array may be a section or a
    ! component of records, `a(::2, :)` or `p(:)%mass`; nothing is copied. It has the attributes
    ! `asynchronous` or `target`, and outlives what is bound to it. Write `p(:)%mass`, not `p%mass`,
    ! where p is allocatable or a pointer: gfortran 12 makes p itself point to the component then.
    type, bind(c), public :: datamover_memory
        private
        type(c_ptr) :: first
        integer(c_int64_t) :: elem_bytes
        integer(c_int) :: elem_type, dims
        integer(c_int64_t) :: extents(15), strides_bytes(15)
    end type

    ! Where elements lie: arrays of the program's, each a block of a layout.
    type, public :: datamover_array
        private
        type(c_ptr) :: attached = c_null_ptr
    contains
        procedure, public :: attach
        procedure, public :: detach
        procedure, public :: save => save_array
        procedure, public :: load => load_array
    end type

    ! Carries a plan out.
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

    ! Gets, step by step, the arrays that another program sends.
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

    ! Takes every element of an array, one by one, to the process that is named for it.
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

    ! Tells to which process an element goes: by its key, or by its position in space.
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

    ! What `ranks` gives for a key that has no target; a distribution refuses it.
    integer(int64), parameter, public :: datamover_no_target = -2

    ! What `next` of a source gives after the last step.
    integer(int64), parameter, public :: datamover_no_step = -1

    interface datamover_memory
        ! A function of C gets every array as it is; one of Fortran would get copies of some.
        function c_memory(a) bind(c, name='datamover_fortran_memory') result(memory)
            import :: datamover_memory
            type(*), dimension(..), asynchronous, target :: a
            type(datamover_memory) :: memory
        end function
    end interface

    ! What the types above can do.
    interface

        ! ------------------------------------------------------------------ layouts

        ! An array of `shape` dealt out as HPF says, such as '(block, cyclic(64), *)', to nprocs
        ! processes; `grid` has the processes per dimension (else they are chosen). With
        ! column_major_grid, ranks are dealt to the grid with its first dimension fastest. Local.
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

        ! Blocks lo(:, i):hi(:, i), both ends in them, each with the rank of its owner; the lower bounds
        ! may be any. Local.
        module subroutine floor_plan(self, lo, hi, owners, nprocs, stat, errmsg)
            class(datamover_layout), intent(inout) :: self
            integer, intent(in) :: lo(:, :), hi(:, :), owners(:), nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The blocks of `blocks`, a floor plan, with other owners, one each, as after balancing the
        ! load anew. Local.
        module subroutine with_owners(self, blocks, owners, nprocs, stat, errmsg)
            class(datamover_layout), intent(inout) :: self
            type(datamover_layout), intent(in) :: blocks
            integer, intent(in) :: owners(:), nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The indices lo:hi cut into `grid` blocks per dimension; block i belongs to rank
        ! mod(i - 1, nprocs). Blocks are numbered with the last dimension fastest. Local.
        module subroutine uniform(self, lo, hi, grid, nprocs, stat, errmsg)
            class(datamover_layout), intent(inout) :: self
            class(*), intent(in) :: lo(:), hi(:), grid(:)
            integer, intent(in) :: nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! How many blocks the layout has, of all ranks together.
        module subroutine num_blocks(self, count, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer(int64), intent(out) :: count
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The rank that owns a block.
        module subroutine owner(self, block, rank, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: block
            integer, intent(out) :: rank
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The blocks of a rank, ascending.
        module subroutine blocks_of(self, rank, blocks, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: rank
            integer, allocatable, intent(out) :: blocks(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Extents of a block's local array, without ghosts.
        module subroutine block_extents(self, block, extents, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: block
            integer, allocatable, intent(out) :: extents(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The indices lo:hi that a block holds, both ends in them; hi is lo - 1 where it holds none. Of
        ! a floor plan, or a block-cyclic layout in which nobody holds two blocks along a dimension.
        module subroutine block_region(self, block, lo, hi, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: block
            integer, allocatable, intent(out) :: lo(:), hi(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Extents of a rank's local array, of a block-cyclic layout; zeros for a rank without any.
        module subroutine local_shape(self, rank, extents, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: rank
            integer, allocatable, intent(out) :: extents(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The index in the whole array of a rank's local element; of a block-cyclic layout.
        module subroutine global_index(self, rank, local, global, stat, errmsg)
            class(datamover_layout), intent(in) :: self
            integer, intent(in) :: rank
            class(*), intent(in) :: local(:)
            integer(int64), allocatable, intent(out) :: global(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Gives the layout back; plans made from it live on.
        module subroutine free_layout(self)
            class(datamover_layout), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ plans

        ! Every index that both layouts hold goes from `source` to the same index of `destination`,
        ! wherever their domains begin; with sections, source_lo:source_hi goes to
        ! destination_lo:destination_hi, of the same shape, whatever the indices. Dimension k of the
        ! destination is dimension axes(k) of the source (a transpose: [2, 1]). If the destination
        ! needs an index that no block of the source holds, that is datamover_mismatch, unless
        ! partial = .true.: then such elements are left unchanged. Local.
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

        ! Fills the ghosts of a layout's blocks, `lower` and `upper` elements deep on either side of
        ! each dimension. The indices periodic_lo:periodic_hi wrap around, in the dimensions where
        ! `wraps` is true (all without it). corners = .false.: faces only. Local.
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

        ! A plan between two layouts that moves nothing yet, for `copy`. Local.
        module subroutine between(self, source, destination, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_layout), intent(in) :: source, destination
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Adds one term: the section source_lo:source_hi of one block, in the indices of the whole
        ! array, goes to that of another. Sections may reach into ghosts. Local.
        module subroutine copy(self, source_block, source_lo, source_hi, destination_block, destination_lo, &
            destination_hi, axes, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            integer, intent(in) :: source_block, destination_block
            class(*), intent(in) :: source_lo(:), source_hi(:), destination_lo(:), destination_hi(:)
            integer, intent(in), optional :: axes(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The terms of both, in order; both are between the same layouts. Local.
        module subroutine merge_plans(self, a, b, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: a, b
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The way back of `forth`. Local.
        module subroutine reverse(self, forth, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: forth
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Each pair of elements of `forth` the other way, also where several blocks hold an element:
        ! what was received by several comes back from all of them, so that a mover with op='add'
        ! sums it. Local.
        module subroutine adjoint(self, forth, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: forth
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! What `first` and then `next` do, in one; the destination layout of the first is the source
        ! layout of the next. Not for index lists, nor where sections change their shape. Local.
        module subroutine compose(self, first, next, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            type(datamover_plan), intent(in) :: first, next
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Layouts and terms in a file, which appears under its name when it is complete. Local.
        module subroutine save_plan(self, path, stat, errmsg)
            class(datamover_plan), intent(in) :: self
            character(*), intent(in) :: path
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The plan of such a file. Local.
        module subroutine load_plan(self, path, stat, errmsg)
            class(datamover_plan), intent(inout) :: self
            character(*), intent(in) :: path
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Gives the plan back; movers made from it live on.
        module subroutine free_plan(self)
            class(datamover_plan), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ arrays

        ! A block of `layout` lies in `memory`, with `ghost_lower` and `ghost_upper` ghosts on either
        ! side in it. Called once for each block of this process; a process without blocks gives
        ! block = 0, and its memory tells the element type alone. The layout may be freed at once.
        ! Local.
        module subroutine attach(self, layout, memory, block, ghost_lower, ghost_upper, stat, errmsg)
            class(datamover_array), intent(inout) :: self
            type(datamover_layout), intent(in) :: layout
            type(datamover_memory), intent(in) :: memory
            integer, intent(in) :: block
            class(*), intent(in), optional :: ghost_lower(:), ghost_upper(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Forgets what is attached; movers that are bound keep what they have.
        module subroutine detach(self)
            class(datamover_array), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ movers

        ! Binds a plan to a source and a destination, to be carried out any number of times. `op`
        ! ('replace', 'add', 'multiply', 'min', 'max') says how arriving elements are combined with
        ! those in place. `transport` and `check` are as in datamover.h. Collective over `comm`.
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

        ! The same for several arrays, sources(k) to destinations(k): what goes from one process to
        ! another goes in one message.
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

        ! Begins to move, without waiting for other processes. Until wait returns the program writes
        ! neither source nor destination, and does not read the destination.
        module subroutine start(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Does what can be done now; `done` tells whether that was all.
        module subroutine test(self, done, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            logical, intent(out) :: done
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Returns when the destination is complete here and the source may be overwritten; after
        ! `timeout` seconds with datamover_timeout, and the mover is still in flight.
        module subroutine wait_for(self, timeout, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! start and wait.
        module subroutine move(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! datamover_invalid_state, and nothing freed, while the mover is in flight.
        module subroutine free_mover(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Frees also in flight: the other processes get datamover_peer_failed where they wait.
        module subroutine give_up(self, stat, errmsg)
            class(datamover_mover), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! ------------------------------------------------------------------ files

        ! Writes the array to a new flat file: `path` ends in .npy, .raw, .bin or .dat, or `format` is
        ! 'npy' or 'raw'. Elements lie with the last dimension fastest, as in C and NumPy, whatever
        ! the layout; ghosts are left out. It appears under its name when it is complete, in place of
        ! another with `overwrite`. `ranks` write it (else all), each with at most `max_bytes` of
        ! memory besides (else 128 MiB). Collective over `comm`. datamover_io where it is there, or
        ! cannot be written.
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

        ! Fills the array, but for its ghosts, from such a file, on any number of processes and in
        ! any layout. Numbers are converted where no integer is made of a real. `ranks` read it; else
        ! as save. Collective over `comm`. datamover_mismatch where a .npy file has another shape,
        ! datamover_wrong_type another type, datamover_io where a raw file has another size.
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

        ! Process 0 listens at `address`, 'tcp://host:port', port 0 for any that is free. Consumers
        ! come and go; the first `send` waits for `consumers` of them, with `every_step` that of each
        ! step. Where a consumer's queue of
        ! `queue_steps` steps (else 2) or `queue_bytes` bytes of all processes (else 1 GiB) is full,
        ! `policy` says what is done: 'block' (the default), 'drop_oldest' or 'drop_newest'. Waits
        ! for consumers end after `timeout` seconds (else never). `token` is what consumers must know, at
        ! least 16 characters; else one is made for every address but the loopback's. Each process of
        ! a consumer has `pathways` connections to each here (else 1); without `shared_memory` those on
        ! this machine use them too. Collective over `comm`. datamover_io where the address is
        ! not to be had.
        module subroutine open_stream(self, comm, address, consumers, policy, queue_steps, queue_bytes, &
            timeout, token, pathways, shared_memory, every_step, stat, errmsg)
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
            logical, intent(in), optional :: shared_memory, every_step
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Where consumers connect. Local.
        module subroutine stream_address(self, address, stat, errmsg)
            class(datamover_stream), intent(in) :: self
            character(:), allocatable, intent(out) :: address
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! What consumers must know; '' for nothing. Local.
        module subroutine stream_token(self, token, stat, errmsg)
            class(datamover_stream), intent(in) :: self
            character(:), allocatable, intent(out) :: token
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Sends an array under a name of 1 to 256 characters; then it may be written again. What is
        ! sent one after the other with the same `step`, an integer from 0 of 32 or 64 bits, is one
        ! step; without `step` an array is one of its own. In every step an array has the same type
        ! and layout, else datamover_wrong_type or datamover_mismatch. Collective. datamover_timeout
        ! where consumers took nothing in time.
        module subroutine send(self, name, array, step, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            character(*), intent(in) :: name
            type(datamover_array), intent(in) :: array
            class(*), intent(in), optional :: step
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Nothing more comes of the step that was sent last. Collective.
        module subroutine end_step(self, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Waits until consumers have what was sent, at most `timeout` seconds (else 30; below 0: for
        ! ever), and ends the stream. A second call does nothing. Collective.
        module subroutine close_stream(self, timeout, stat, errmsg)
            class(datamover_stream), intent(inout) :: self
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Gives the stream back; one that was not closed ends at once. Local.
        module subroutine free_stream(self)
            class(datamover_stream), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ streams: receiving

        ! Connects to the stream that another program sends at `address`, 'tcp://host:port', waiting
        ! at most `timeout` seconds for it (else 30; below 0: for ever). `token` is what it demands,
        ! else that of the environment variable DATAMOVER_STREAM_TOKEN. Memory is taken for
        ! `ahead` steps (1 to 64; else by their size) beyond the one that is looked at. `newest`: the
        ! newest step only, and nobody waits. Without `shared_memory` messages come over connections
        ! on one machine, too. Collective over `comm`. datamover_timeout where nobody listens,
        ! datamover_io where somebody else does, datamover_invalid_state where the stream has ended
        ! or demands another token.
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

        ! Says once which array is wanted, by its name, and where this process's part of it is put in
        ! each step, in any layout. Its memory outlives the source. Steps come from those on that
        ! begin when the stream has heard it. Collective. datamover_mismatch where processes want
        ! different arrays; datamover_invalid_state where it was said before.
        module subroutine subscribe_one(self, name, array, stat, errmsg)
            class(datamover_stream_source), intent(inout) :: self
            character(*), intent(in) :: name
            type(datamover_array), intent(in) :: array
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! The same for several, names(k) into arrays(k).
        module subroutine subscribe_several(self, names, arrays, stat, errmsg)
            class(datamover_stream_source), intent(inout) :: self
            character(*), intent(in) :: names(:)
            type(datamover_array), intent(in) :: arrays(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Waits for the next step, at most `timeout` seconds (else for ever), puts its arrays where
        ! they belong and gives its number: the same on each process. datamover_no_step where the
        ! stream has ended, or the call fails. Local. datamover_timeout; datamover_mismatch or
        ! datamover_wrong_type where arrays do not fit what is sent; datamover_peer_failed where a
        ! sending process failed, or a receiving one was killed or left without taking this step;
        ! datamover_io where what came was damaged.
        module subroutine next_step(self, step, timeout, stat, errmsg)
            class(datamover_stream_source), intent(inout) :: self
            integer(int64), intent(out) :: step
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Whether an array was sent in the step that `next` gave last. Local.
        module subroutine has_array(self, name, sent, stat, errmsg)
            class(datamover_stream_source), intent(in) :: self
            character(*), intent(in) :: name
            logical, intent(out) :: sent
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Leaves the stream and gives the source back. The other processes still get every step that
        ! this one took; next_step fails there in place of a further one. Local.
        module subroutine free_source(self)
            class(datamover_stream_source), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ distributions

        ! Element i goes to the process ranks(i), or to all of ranks(:, i); -1 drops it. `ranks` are
        ! integers of any kind, read once: datamover_memory(ranks). `max_bytes` limits the extra
        ! memory of a move; `method` is as in distribute.h. Collective over `comm`.
        module subroutine to_ranks(self, comm, ranks, max_bytes, method, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            integer, intent(in) :: comm
            type(datamover_memory), intent(in) :: ranks
            integer(int64), intent(in), optional :: max_bytes
            character(*), intent(in), optional :: method
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Each element goes to the process that `map` tells for its key: datamover_memory(keys), as
        ! for the map's `ranks`. Else as to_ranks.
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

        ! How many elements arrive here.
        module subroutine received(self, count, stat, errmsg)
            class(datamover_distribution), intent(in) :: self
            integer(int64), intent(out) :: count
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Begins to move arrays, without waiting for other processes. `columns` and `results` are
        ! each one datamover_memory(x), or as many in a vector. The last dimension of an array
        ! counts the elements: of x(3, n), three numbers are one element. Results have room for what
        ! arrives, without gaps. Until wait returns the program writes neither. What does not fit on
        ! any process, wait tells on all, and nothing has moved.
        module subroutine start_distribution(self, columns, results, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            type(datamover_memory), intent(in) :: columns(..), results(..)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Does what can be done now; `done` tells whether that was all.
        module subroutine test_distribution(self, done, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            logical, intent(out) :: done
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Returns when all has arrived here and the columns may be changed; after `timeout` seconds
        ! with datamover_timeout, and the move is still in flight.
        module subroutine wait_distribution(self, timeout, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            real(c_double), intent(in), optional :: timeout
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! start and wait, by the method of `to_ranks`. Collective.
        module subroutine move_distribution(self, columns, results, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            type(datamover_memory), intent(in) :: columns(..), results(..)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Takes values, one for each element that arrived, back to where the elements came from. Of
        ! an element with several ranks `op` ('replace', 'add', 'multiply', 'min', 'max') combines
        ! the values; one without gets zero. Collective.
        module subroutine reverse_distribution(self, values, results, op, stat, errmsg)
            class(datamover_distribution), intent(inout) :: self
            type(datamover_memory), intent(in) :: values(..), results(..)
            character(*), intent(in), optional :: op
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Gives a move in flight up.
        module subroutine free_distribution(self)
            class(datamover_distribution), intent(inout) :: self
        end subroutine

        ! ------------------------------------------------------------------ targets by keys

        ! Integer keys: to the rank modulo(key, nprocs). Local, as all of a map.
        module subroutine modulo_map(self, nprocs, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            integer, intent(in) :: nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Integer keys from 1 to `total`, in blocks of ceiling(total / nprocs), HPF's BLOCK; others
        ! have no target.
        module subroutine block_map(self, total, nprocs, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            integer(int64), intent(in) :: total
            integer, intent(in) :: nprocs
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Keys below values(1) go to rank 0, those below values(2) to rank 1, and so on; for one
        ! process more than there are values, which ascend: integers of 32 or 64 bits (compared
        ! exactly), or double precision.
        module subroutine splitters(self, values, stat, errmsg)
            class(datamover_target_map), intent(inout) :: self
            class(*), intent(in) :: values(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Positions in the box from `lo` to `hi`, which is cut into numbers(d) equal cells in each
        ! dimension: to the process of the cell. `order` is 'row_major' (the last dimension fastest),
        ! 'morton' or 'hilbert'; `owners` has the rank of every cell along it, -1 drops; without it
        ! processes get equal parts. `periodic`: positions outside are wrapped, else the nearest cell
        ! counts.
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

        ! The rank of every element, or datamover_no_target. Keys are numbers of any type,
        ! datamover_memory(keys): one per element, or of keys(3, n) three.
        module subroutine ranks(self, keys, to, stat, errmsg)
            class(datamover_target_map), intent(in) :: self
            type(datamover_memory), intent(in) :: keys
            integer(int64), intent(out) :: to(:)
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Gives the map back; distributions made with it live on.
        module subroutine free_target_map(self)
            class(datamover_target_map), intent(inout) :: self
        end subroutine
    end interface

    ! For the submodules.
    ! Of C, for all kinds of handles.
    abstract interface
        function c_free_function(handle) bind(c) result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: handle
            integer(c_int) :: code
        end function
    end interface

    interface
        ! Hands the code and its message to the caller, or stops where that asks for no code.
        module subroutine conclude(code, stat, errmsg)
            integer(c_int), intent(in) :: code
            integer, intent(out), optional :: stat
            character(*), intent(inout), optional :: errmsg
        end subroutine

        ! Puts what a call made in the place of what was there, and concludes the call.
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

        ! A text of C's.
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

        ! Indices of either size in 64 bits, with `shift` added. Fails for other types, and where they
        ! are not `count` (below 0: any number).
        module subroutine widen(values, shift, count, name, wide, code)
            class(*), intent(in) :: values(:)
            integer, intent(in) :: shift, count
            character(*), intent(in) :: name
            integer(c_int64_t), allocatable, intent(out) :: wide(:)
            integer(c_int), intent(inout) :: code
        end subroutine

        ! A text as C's; where none was given, a place for one that text_at does not tell.
        module function c_text(text) result(characters)
            character(*), intent(in), optional :: text
            character(:), allocatable :: characters
        end function

        module function text_at(characters, given) result(at)
            character(*), target, intent(in) :: characters
            logical, intent(in) :: given
            type(c_ptr) :: at
        end function

        ! Dimensions from 1 as dimensions from 0.
        module function axes_from_0(axes) result(from_0)
            integer, intent(in) :: axes(:)
            integer(c_int) :: from_0(size(axes))
        end function

        module function dims_of(layout, code) result(dims)
            type(c_ptr), intent(in) :: layout
            integer(c_int), intent(inout) :: code
            integer(c_int) :: dims
        end function

        ! A handle of what is attached, for free_array; none where `code` tells of an error.
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
