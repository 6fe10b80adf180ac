! SPDX-License-Identifier: BSD-3-Clause
! How does a Fortran program move the elements of distributed arrays?
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
        procedure, public :: uniform
        procedure, public :: num_blocks
        procedure, public :: owner
        procedure, public :: blocks_of
        procedure, public :: block_extents
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
        procedure, public :: free => free_plan
    end type

    ! Where an array's elements lie: datamover_memory(a), for attach. The array may be a section or a
    ! component of records, `a(::2, :)` or `p%mass`; nothing is copied. It has the attributes
    ! `asynchronous` or `target`, and outlives what is bound to it.
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
        type(c_ptr) :: layout = c_null_ptr, attached = c_null_ptr
    contains
        procedure, public :: attach
        procedure, public :: detach
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

    interface datamover_memory
        ! A function of C gets every array as it is; one of Fortran would get copies of some.
        function c_memory(a) bind(c, name='datamover_fortran_memory') result(memory)
            import :: datamover_memory
            type(*), dimension(..), asynchronous, target :: a
            type(datamover_memory) :: memory
        end function
    end interface

    interface
        function c_error_message() bind(c, name='datamover_error_message') result(message)
            import :: c_ptr
            type(c_ptr) :: message
        end function
        function c_strlen(text) bind(c, name='strlen') result(length)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
        function c_error_set(code, message) bind(c, name='datamover_error_set') result(same)
            import :: c_int, c_char
            integer(c_int), value :: code
            character(kind=c_char), intent(in) :: message(*)
            integer(c_int) :: same
        end function

        function c_block_cyclic(layout, dims, shape, distribution, nprocs, options) &
            bind(c, name='datamover_layout_block_cyclic') result(code)
            import :: c_ptr, c_int, c_int64_t, c_char
            type(c_ptr), intent(inout) :: layout
            integer(c_int), value :: dims
            integer(c_int64_t), intent(in) :: shape(*)
            character(kind=c_char), intent(in) :: distribution(*)
            integer(c_int64_t), value :: nprocs
            type(c_ptr), value :: options
            integer(c_int) :: code
        end function
        function c_floor_plan(layout, dims, num_blocks, lo, hi, owners, nprocs) &
            bind(c, name='datamover_layout_floor_plan') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: layout
            integer(c_int), value :: dims
            integer(c_int64_t), value :: num_blocks, nprocs
            integer(c_int64_t), intent(in) :: lo(*), hi(*), owners(*)
            integer(c_int) :: code
        end function
        function c_uniform(layout, dims, lo, hi, grid, nprocs) &
            bind(c, name='datamover_layout_uniform') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: layout
            integer(c_int), value :: dims
            integer(c_int64_t), intent(in) :: lo(*), hi(*), grid(*)
            integer(c_int64_t), value :: nprocs
            integer(c_int) :: code
        end function
        function c_dims(layout, dims) bind(c, name='datamover_layout_dims') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: layout
            integer(c_int), intent(out) :: dims
            integer(c_int) :: code
        end function
        function c_num_blocks(layout, count) bind(c, name='datamover_layout_num_blocks') &
            result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), intent(out) :: count
            integer(c_int) :: code
        end function
        function c_owner(layout, block, rank) bind(c, name='datamover_layout_owner') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: block
            integer(c_int64_t), intent(out) :: rank
            integer(c_int) :: code
        end function
        function c_blocks_of(layout, rank, blocks, capacity, count) &
            bind(c, name='datamover_layout_blocks_of') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout, blocks
            integer(c_int64_t), value :: rank, capacity
            integer(c_int64_t), intent(out) :: count
            integer(c_int) :: code
        end function
        function c_block_extents(layout, block, extents) &
            bind(c, name='datamover_layout_block_extents') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: block
            integer(c_int64_t), intent(out) :: extents(*)
            integer(c_int) :: code
        end function
        function c_local_shape(layout, rank, extents) &
            bind(c, name='datamover_layout_local_shape') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: rank
            integer(c_int64_t), intent(out) :: extents(*)
            integer(c_int) :: code
        end function
        function c_global_index(layout, rank, local, global) &
            bind(c, name='datamover_layout_global_index') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: rank
            integer(c_int64_t), intent(in) :: local(*)
            integer(c_int64_t), intent(out) :: global(*)
            integer(c_int) :: code
        end function
        function c_layout_free(layout) bind(c, name='datamover_layout_free') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: layout
            integer(c_int) :: code
        end function

        function c_redistribute(plan, source, destination, axes) &
            bind(c, name='datamover_redistribute') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: source, destination, axes
            integer(c_int) :: code
        end function
        function c_redistribute_section(plan, source, source_lo, source_hi, destination, &
            destination_lo, destination_hi, axes) &
            bind(c, name='datamover_redistribute_section') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: source, destination, axes
            integer(c_int64_t), intent(in) :: source_lo(*), source_hi(*), destination_lo(*), &
                destination_hi(*)
            integer(c_int) :: code
        end function
        function c_halo(plan, layout, lower, upper, periodic_lo, periodic_hi, wraps, corners) &
            bind(c, name='datamover_halo') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: layout, periodic_lo, periodic_hi, wraps
            integer(c_int64_t), intent(in) :: lower(*), upper(*)
            integer(c_int), value :: corners
            integer(c_int) :: code
        end function
        function c_plan_new(plan, source, destination) bind(c, name='datamover_plan_new') &
            result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: source, destination
            integer(c_int) :: code
        end function
        function c_plan_copy(plan, source_block, source_lo, source_hi, destination_block, &
            destination_lo, destination_hi, axes) bind(c, name='datamover_plan_copy') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: plan, axes
            integer(c_int64_t), value :: source_block, destination_block
            integer(c_int64_t), intent(in) :: source_lo(*), source_hi(*), destination_lo(*), &
                destination_hi(*)
            integer(c_int) :: code
        end function
        function c_plan_merge(plan, a, b) bind(c, name='datamover_plan_merge') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: a, b
            integer(c_int) :: code
        end function
        function c_plan_reverse(plan, forth) bind(c, name='datamover_plan_reverse') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: forth
            integer(c_int) :: code
        end function
        function c_plan_layout(plan, side, layout) bind(c, name='datamover_plan_layout') &
            result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: plan
            integer(c_int), value :: side
            type(c_ptr), intent(inout) :: layout
            integer(c_int) :: code
        end function
        function c_plan_free(plan) bind(c, name='datamover_plan_free') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            integer(c_int) :: code
        end function

        function c_attach(attached, layout, memory, block, ghost_lower, ghost_upper) &
            bind(c, name='datamover_fortran_attach') result(code)
            import :: c_ptr, c_int, c_int64_t, datamover_memory
            type(c_ptr), intent(inout) :: attached
            type(c_ptr), value :: layout
            type(datamover_memory), intent(in) :: memory
            integer(c_int64_t), value :: block
            type(c_ptr), value :: ghost_lower, ghost_upper
            integer(c_int) :: code
        end function
        subroutine c_detach(attached) bind(c, name='datamover_fortran_detach')
            import :: c_ptr
            type(c_ptr), intent(inout) :: attached
        end subroutine
        function c_array(array, layout, attached) bind(c, name='datamover_fortran_array') &
            result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: array
            type(c_ptr), value :: layout, attached
            integer(c_int) :: code
        end function
        function c_array_free(array) bind(c, name='datamover_array_free') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: array
            integer(c_int) :: code
        end function

        function c_bind(mover, comm, so_far, plan, num_arrays, sources, destinations, op, &
            transport, check) bind(c, name='datamover_fortran_bind') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: mover
            integer(c_int), value :: comm, so_far, check
            type(c_ptr), value :: plan, op, transport
            integer(c_int64_t), value :: num_arrays
            type(c_ptr), intent(in) :: sources(*), destinations(*)
            integer(c_int) :: code
        end function
        function c_start(mover) bind(c, name='datamover_mover_start') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: mover
            integer(c_int) :: code
        end function
        function c_test(mover, done) bind(c, name='datamover_mover_test') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: mover
            integer(c_int), intent(inout) :: done
            integer(c_int) :: code
        end function
        function c_wait(mover, timeout_seconds) bind(c, name='datamover_mover_wait') result(code)
            import :: c_ptr, c_int, c_double
            type(c_ptr), value :: mover
            real(c_double), value :: timeout_seconds
            integer(c_int) :: code
        end function
        function c_move(mover) bind(c, name='datamover_mover_move') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: mover
            integer(c_int) :: code
        end function
        function c_mover_free(mover) bind(c, name='datamover_mover_free') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: mover
            integer(c_int) :: code
        end function
        function c_give_up(mover) bind(c, name='datamover_mover_give_up') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: mover
            integer(c_int) :: code
        end function
    end interface

    ! C's datamover_block_cyclic_options.
    type, bind(c) :: block_cyclic_options
        type(c_ptr) :: grid = c_null_ptr, first_process = c_null_ptr
        integer(c_int) :: column_major_grid = 0
        type(c_ptr) :: ranks = c_null_ptr
        integer(c_int64_t) :: num_ranks = 0, replicas = 0
    end type

contains

    ! ------------------------------------------------------------------ errors and conversions

    ! Hands the code and its message to the caller, or stops where that asks for no code.
    subroutine conclude(code, stat, errmsg)
        integer(c_int), intent(in) :: code
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        character(:), allocatable :: message
        if (present(stat)) stat = code
        if (code == datamover_success) return
        message = last_message()
        if (present(errmsg)) errmsg = message
        if (.not. present(stat)) error stop 'datamover: '//message
    end subroutine

    function last_message() result(message)
        character(:), allocatable :: message
        character(kind=c_char), pointer :: text(:)
        type(c_ptr) :: at
        integer :: length, i
        at = c_error_message()
        length = int(c_strlen(at))
        call c_f_pointer(at, text, [length])
        allocate (character(length) :: message)
        do i = 1, length
            message(i:i) = text(i)
        end do
    end function

    function refused(code, message) result(same)
        integer, intent(in) :: code
        character(*), intent(in) :: message
        integer(c_int) :: same
        same = c_error_set(int(code, c_int), message//c_null_char)
    end function

    function text_of(number) result(text)
        integer, intent(in) :: number
        character(:), allocatable :: text
        character(12) :: digits
        write (digits, '(i0)') number
        text = trim(digits)
    end function

    ! Indices of either size in 64 bits, with `shift` added. Fails for other types, and where they
    ! are not `count` (below 0: any number).
    subroutine widen(values, shift, count, name, wide, code)
        class(*), intent(in) :: values(:)
        integer, intent(in) :: shift, count
        character(*), intent(in) :: name
        integer(c_int64_t), allocatable, intent(out) :: wide(:)
        integer(c_int), intent(inout) :: code
        integer :: i
        if (code /= 0) return
        allocate (wide(size(values)))
        select type (values)
        type is (integer(int32))
            wide = values
        type is (integer(int64))
            wide = values
        class default
            code = refused(datamover_invalid_argument, name//' is not of integers')
            return
        end select
        if (count >= 0 .and. size(wide) /= count) then
            code = refused(datamover_mismatch, name//' has '//text_of(size(wide))// &
                ' entries; there are '//text_of(count)//' dimensions')
            return
        end if
        if (shift < 0) then
            do i = 1, size(wide)
                if (wide(i) == -huge(wide) - 1) then
                    code = refused(datamover_out_of_range, name//' is too small')
                    return
                end if
            end do
        end if
        wide = wide + shift
    end subroutine

    ! Dimensions from 1 as dimensions from 0.
    function axes_from_0(axes) result(from_0)
        integer, intent(in) :: axes(:)
        integer(c_int) :: from_0(size(axes))
        from_0 = int(axes, c_int) - 1
    end function

    function dims_of(layout, code) result(dims)
        type(c_ptr), intent(in) :: layout
        integer(c_int), intent(inout) :: code
        integer(c_int) :: dims
        dims = 0
        if (code == 0) code = c_dims(layout, dims)
    end function

    ! ------------------------------------------------------------------ layouts

    ! An array of `shape` dealt out as HPF says, such as '(block, cyclic(64), *)', to nprocs
    ! processes; `grid` has the processes per dimension (else they are chosen). With
    ! column_major_grid, ranks are dealt to the grid with its first dimension fastest. Local.
    subroutine block_cyclic(self, shape, distribution, nprocs, grid, column_major_grid, stat, &
        errmsg)
        class(datamover_layout), intent(inout) :: self
        class(*), intent(in) :: shape(:)
        character(*), intent(in) :: distribution
        integer, intent(in) :: nprocs
        class(*), intent(in), optional :: grid(:)
        logical, intent(in), optional :: column_major_grid
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable :: extents(:)
        integer(c_int64_t), allocatable, target :: processes(:)
        type(block_cyclic_options), target :: options
        type(c_ptr) :: made
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        call widen(shape, 0, -1, 'shape', extents, code)
        if (present(grid) .and. code == 0) then
            call widen(grid, 0, size(extents), 'grid', processes, code)
            if (code == 0) options%grid = c_loc(processes)
        end if
        if (present(column_major_grid)) options%column_major_grid = merge(1, 0, column_major_grid)
        if (code == 0) code = c_block_cyclic(made, size(extents), extents, &
            distribution//c_null_char, int(nprocs, c_int64_t), c_loc(options))
        call replace_layout(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    ! Blocks lo(:, i):hi(:, i), both ends in them, each with the rank of its owner; the lower bounds
    ! may be any. Local.
    subroutine floor_plan(self, lo, hi, owners, nprocs, stat, errmsg)
        class(datamover_layout), intent(inout) :: self
        integer, intent(in) :: lo(:, :), hi(:, :), owners(:), nprocs
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(c_ptr) :: made
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        if (any(shape(lo) /= shape(hi)) .or. size(lo, 2) /= size(owners)) then
            code = refused(datamover_mismatch, 'lo, hi and owners are of different numbers of blocks')
        else
            code = c_floor_plan(made, size(lo, 1), int(size(lo, 2), c_int64_t), &
                reshape(int(lo, c_int64_t) - 1, [size(lo)]), &
                reshape(int(hi, c_int64_t), [size(hi)]), int(owners, c_int64_t), &
                int(nprocs, c_int64_t))
        end if
        call replace_layout(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    ! The indices lo:hi cut into `grid` blocks per dimension; block i belongs to rank
    ! mod(i - 1, nprocs). Blocks are numbered with the last dimension fastest. Local.
    subroutine uniform(self, lo, hi, grid, nprocs, stat, errmsg)
        class(datamover_layout), intent(inout) :: self
        class(*), intent(in) :: lo(:), hi(:), grid(:)
        integer, intent(in) :: nprocs
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable :: first(:), end(:), blocks(:)
        type(c_ptr) :: made
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        call widen(lo, -1, -1, 'lo', first, code)
        call widen(hi, 0, size(lo), 'hi', end, code)
        call widen(grid, 0, size(lo), 'grid', blocks, code)
        if (code == 0) code = c_uniform(made, size(first), first, end, blocks, &
            int(nprocs, c_int64_t))
        call replace_layout(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    subroutine replace_layout(layout, made, code)
        class(datamover_layout), intent(inout) :: layout
        type(c_ptr), intent(in) :: made
        integer(c_int), intent(inout) :: code
        if (code /= 0) return
        code = c_layout_free(layout%handle)
        layout%handle = made
    end subroutine

    subroutine num_blocks(self, count, stat, errmsg)
        class(datamover_layout), intent(in) :: self
        integer(int64), intent(out) :: count
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        count = 0
        call conclude(c_num_blocks(self%handle, count), stat, errmsg)
    end subroutine

    ! The rank that owns a block.
    subroutine owner(self, block, rank, stat, errmsg)
        class(datamover_layout), intent(in) :: self
        integer, intent(in) :: block
        integer, intent(out) :: rank
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t) :: found
        integer(c_int) :: code
        found = -1
        code = c_owner(self%handle, int(block, c_int64_t) - 1, found)
        rank = int(found)
        call conclude(code, stat, errmsg)
    end subroutine

    ! The blocks of a rank, ascending.
    subroutine blocks_of(self, rank, blocks, stat, errmsg)
        class(datamover_layout), intent(in) :: self
        integer, intent(in) :: rank
        integer, allocatable, intent(out) :: blocks(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable, target :: found(:)
        integer(c_int64_t) :: held, told
        integer(c_int) :: code
        held = 0
        told = 0
        code = c_blocks_of(self%handle, int(rank, c_int64_t), c_null_ptr, 0_c_int64_t, held)
        allocate (found(max(held, 1_c_int64_t)), source=0_c_int64_t)
        if (code == 0) code = c_blocks_of(self%handle, int(rank, c_int64_t), c_loc(found), held, &
            told)
        if (code /= 0) told = 0
        blocks = int(found(1:told)) + 1
        call conclude(code, stat, errmsg)
    end subroutine

    ! Extents of a block's local array, without ghosts.
    subroutine block_extents(self, block, extents, stat, errmsg)
        class(datamover_layout), intent(in) :: self
        integer, intent(in) :: block
        integer, allocatable, intent(out) :: extents(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t) :: found(8)
        integer(c_int) :: code, dims
        code = 0
        found = 0
        dims = dims_of(self%handle, code)
        if (code == 0) code = c_block_extents(self%handle, int(block, c_int64_t) - 1, found)
        extents = int(found(1:dims))
        call conclude(code, stat, errmsg)
    end subroutine

    ! Extents of a rank's local array, of a block-cyclic layout; zeros for a rank without any.
    subroutine local_shape(self, rank, extents, stat, errmsg)
        class(datamover_layout), intent(in) :: self
        integer, intent(in) :: rank
        integer, allocatable, intent(out) :: extents(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t) :: found(8)
        integer(c_int) :: code, dims
        code = 0
        found = 0
        dims = dims_of(self%handle, code)
        if (code == 0) code = c_local_shape(self%handle, int(rank, c_int64_t), found)
        extents = int(found(1:dims))
        call conclude(code, stat, errmsg)
    end subroutine

    ! The index in the whole array of a rank's local element; of a block-cyclic layout.
    subroutine global_index(self, rank, local, global, stat, errmsg)
        class(datamover_layout), intent(in) :: self
        integer, intent(in) :: rank
        class(*), intent(in) :: local(:)
        integer(int64), allocatable, intent(out) :: global(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable :: from_0(:)
        integer(c_int64_t) :: found(8)
        integer(c_int) :: code, dims
        code = 0
        found = 0
        dims = dims_of(self%handle, code)
        call widen(local, -1, dims, 'local', from_0, code)
        if (code == 0) code = c_global_index(self%handle, int(rank, c_int64_t), from_0, found)
        global = found(1:dims) + 1
        call conclude(code, stat, errmsg)
    end subroutine

    subroutine free_layout(self)
        class(datamover_layout), intent(inout) :: self
        call conclude(c_layout_free(self%handle))
    end subroutine

    ! ------------------------------------------------------------------ plans

    ! Everything of `source` goes to the same index of `destination`; with sections, what lies in
    ! source_lo:source_hi goes to destination_lo:destination_hi. Dimension k of the destination is
    ! dimension axes(k) of the source (a transpose: [2, 1]). Local.
    subroutine redistribute(self, source, destination, source_lo, source_hi, destination_lo, &
        destination_hi, axes, stat, errmsg)
        class(datamover_plan), intent(inout) :: self
        type(datamover_layout), intent(in) :: source, destination
        class(*), intent(in), optional :: source_lo(:), source_hi(:), destination_lo(:), &
            destination_hi(:)
        integer, intent(in), optional :: axes(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable :: slo(:), shi(:), dlo(:), dhi(:)
        integer(c_int), allocatable, target :: from_0(:)
        type(c_ptr) :: made, axes_at
        integer(c_int) :: code, dims
        code = 0
        made = c_null_ptr
        dims = dims_of(source%handle, code)
        call give_axes(axes, dims, from_0, axes_at, code)
        if (count([present(source_lo), present(source_hi), present(destination_lo), &
            present(destination_hi)]) == 4) then
            call widen(source_lo, -1, dims, 'source_lo', slo, code)
            call widen(source_hi, 0, dims, 'source_hi', shi, code)
            dims = dims_of(destination%handle, code)
            call widen(destination_lo, -1, dims, 'destination_lo', dlo, code)
            call widen(destination_hi, 0, dims, 'destination_hi', dhi, code)
            if (code == 0) code = c_redistribute_section(made, source%handle, slo, shi, &
                destination%handle, dlo, dhi, axes_at)
        else if (present(source_lo) .or. present(source_hi) .or. present(destination_lo) .or. &
            present(destination_hi)) then
            code = refused(datamover_invalid_argument, 'a section has all four of source_lo, '// &
                'source_hi, destination_lo and destination_hi')
        else if (code == 0) then
            code = c_redistribute(made, source%handle, destination%handle, axes_at)
        end if
        call replace_plan(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    subroutine give_axes(axes, dims, from_0, at, code)
        integer, intent(in), optional :: axes(:)
        integer(c_int), intent(in) :: dims
        integer(c_int), allocatable, target, intent(out) :: from_0(:)
        type(c_ptr), intent(out) :: at
        integer(c_int), intent(inout) :: code
        at = c_null_ptr
        if (.not. present(axes) .or. code /= 0) return
        if (size(axes) /= dims) then
            code = refused(datamover_mismatch, 'axes has '//text_of(size(axes))// &
                ' entries; there are '//text_of(int(dims))//' dimensions')
            return
        end if
        from_0 = axes_from_0(axes)
        at = c_loc(from_0)
    end subroutine

    ! Fills the ghosts of a layout's blocks, `lower` and `upper` elements deep on either side of
    ! each dimension. The indices periodic_lo:periodic_hi wrap around, in the dimensions where
    ! `wraps` is true (all without it). corners = .false.: faces only. Local.
    subroutine halo(self, layout, lower, upper, periodic_lo, periodic_hi, wraps, corners, stat, &
        errmsg)
        class(datamover_plan), intent(inout) :: self
        type(datamover_layout), intent(in) :: layout
        class(*), intent(in) :: lower(:), upper(:)
        class(*), intent(in), optional :: periodic_lo(:), periodic_hi(:)
        logical, intent(in), optional :: wraps(:), corners
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable :: low(:), up(:)
        integer(c_int64_t), allocatable, target :: plo(:), phi(:)
        integer(c_int), allocatable, target :: around(:)
        type(c_ptr) :: made, plo_at, phi_at, wraps_at
        integer(c_int) :: code, dims, with_corners
        code = 0
        made = c_null_ptr
        plo_at = c_null_ptr
        phi_at = c_null_ptr
        wraps_at = c_null_ptr
        with_corners = 1
        if (present(corners)) with_corners = merge(1, 0, corners)
        dims = dims_of(layout%handle, code)
        call widen(lower, 0, dims, 'lower', low, code)
        call widen(upper, 0, dims, 'upper', up, code)
        if (present(periodic_lo) .neqv. present(periodic_hi)) &
            code = refused(datamover_invalid_argument, 'periodic_lo and periodic_hi go together')
        if (present(periodic_lo) .and. present(periodic_hi)) then
            call widen(periodic_lo, -1, dims, 'periodic_lo', plo, code)
            call widen(periodic_hi, 0, dims, 'periodic_hi', phi, code)
            if (code == 0) then
                plo_at = c_loc(plo)
                phi_at = c_loc(phi)
            end if
        end if
        if (present(wraps) .and. code == 0) then
            if (size(wraps) /= dims) then
                code = refused(datamover_mismatch, 'wraps has '//text_of(size(wraps))// &
                    ' entries; there are '//text_of(int(dims))//' dimensions')
            else
                around = merge(1_c_int, 0_c_int, wraps)
                wraps_at = c_loc(around)
            end if
        end if
        if (code == 0) code = c_halo(made, layout%handle, low, up, plo_at, phi_at, wraps_at, &
            with_corners)
        call replace_plan(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    ! A plan between two layouts that moves nothing yet, for `copy`. Local.
    subroutine between(self, source, destination, stat, errmsg)
        class(datamover_plan), intent(inout) :: self
        type(datamover_layout), intent(in) :: source, destination
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_new(made, source%handle, destination%handle)
        call replace_plan(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    ! Adds one term: the section source_lo:source_hi of one block, in the indices of the whole
    ! array, goes to that of another. Sections may reach into ghosts. Local.
    subroutine copy(self, source_block, source_lo, source_hi, destination_block, destination_lo, &
        destination_hi, axes, stat, errmsg)
        class(datamover_plan), intent(inout) :: self
        integer, intent(in) :: source_block, destination_block
        class(*), intent(in) :: source_lo(:), source_hi(:), destination_lo(:), destination_hi(:)
        integer, intent(in), optional :: axes(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable :: slo(:), shi(:), dlo(:), dhi(:)
        integer(c_int), allocatable, target :: from_0(:)
        type(c_ptr) :: axes_at
        integer(c_int) :: code, source_dims, destination_dims
        code = 0
        call plan_dims(self, source_dims, destination_dims, code)
        call give_axes(axes, source_dims, from_0, axes_at, code)
        call widen(source_lo, -1, source_dims, 'source_lo', slo, code)
        call widen(source_hi, 0, source_dims, 'source_hi', shi, code)
        call widen(destination_lo, -1, destination_dims, 'destination_lo', dlo, code)
        call widen(destination_hi, 0, destination_dims, 'destination_hi', dhi, code)
        if (code == 0) code = c_plan_copy(self%handle, int(source_block, c_int64_t) - 1, slo, shi, &
            int(destination_block, c_int64_t) - 1, dlo, dhi, axes_at)
        call conclude(code, stat, errmsg)
    end subroutine

    subroutine plan_dims(plan, source_dims, destination_dims, code)
        class(datamover_plan), intent(in) :: plan
        integer(c_int), intent(out) :: source_dims, destination_dims
        integer(c_int), intent(inout) :: code
        integer(c_int) :: dims(0:1), side, ignored
        type(c_ptr) :: layout
        dims = 0
        do side = 0, 1
            layout = c_null_ptr
            if (code == 0) code = c_plan_layout(plan%handle, side, layout)
            dims(side) = dims_of(layout, code)
            ignored = c_layout_free(layout)
        end do
        source_dims = dims(0)
        destination_dims = dims(1)
    end subroutine

    ! The terms of both, in order; both are between the same layouts. Local.
    subroutine merge_plans(self, a, b, stat, errmsg)
        class(datamover_plan), intent(inout) :: self
        type(datamover_plan), intent(in) :: a, b
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_merge(made, a%handle, b%handle)
        call replace_plan(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    ! The way back of `forth`. Local.
    subroutine reverse(self, forth, stat, errmsg)
        class(datamover_plan), intent(inout) :: self
        type(datamover_plan), intent(in) :: forth
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_reverse(made, forth%handle)
        call replace_plan(self, made, code)
        call conclude(code, stat, errmsg)
    end subroutine

    subroutine replace_plan(plan, made, code)
        class(datamover_plan), intent(inout) :: plan
        type(c_ptr), intent(in) :: made
        integer(c_int), intent(inout) :: code
        if (code /= 0) return
        code = c_plan_free(plan%handle)
        plan%handle = made
    end subroutine

    subroutine free_plan(self)
        class(datamover_plan), intent(inout) :: self
        call conclude(c_plan_free(self%handle))
    end subroutine

    ! ------------------------------------------------------------------ arrays

    ! A block of `layout` lies in `memory`, with `ghost_lower` and `ghost_upper` ghosts on either
    ! side in it. Called once for each block of this process; a process without blocks gives
    ! block = 0, and its memory tells the element type alone. The layout must not be freed before the
    ! movers are bound. Local.
    subroutine attach(self, layout, memory, block, ghost_lower, ghost_upper, stat, errmsg)
        class(datamover_array), intent(inout) :: self
        type(datamover_layout), intent(in) :: layout
        type(datamover_memory), intent(in) :: memory
        integer, intent(in) :: block
        class(*), intent(in), optional :: ghost_lower(:), ghost_upper(:)
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int64_t), allocatable, target :: lower(:), upper(:)
        type(c_ptr) :: lower_at, upper_at
        integer(c_int) :: code, dims
        code = 0
        lower_at = c_null_ptr
        upper_at = c_null_ptr
        dims = dims_of(layout%handle, code)
        if (present(ghost_lower)) then
            call widen(ghost_lower, 0, dims, 'ghost_lower', lower, code)
            if (code == 0) lower_at = c_loc(lower)
        end if
        if (present(ghost_upper)) then
            call widen(ghost_upper, 0, dims, 'ghost_upper', upper, code)
            if (code == 0) upper_at = c_loc(upper)
        end if
        if (code == 0 .and. c_associated(self%layout) .and. &
            .not. c_associated(self%layout, layout%handle)) &
            code = refused(datamover_mismatch, 'an array is attached with one layout; detach first')
        if (code == 0) code = c_attach(self%attached, layout%handle, memory, &
            int(block, c_int64_t) - 1, lower_at, upper_at)
        if (code == 0) self%layout = layout%handle
        call conclude(code, stat, errmsg)
    end subroutine

    ! Forgets what is attached; movers that are bound keep what they have.
    subroutine detach(self)
        class(datamover_array), intent(inout) :: self
        call c_detach(self%attached)
        self%layout = c_null_ptr
    end subroutine

    ! ------------------------------------------------------------------ movers

    ! Binds a plan to a source and a destination, to be carried out any number of times. `op`
    ! ('replace', 'add', 'multiply', 'min', 'max') says how arriving elements are combined with
    ! those in place. `transport` and `check` are as in datamover.h. Collective over `comm`.
    subroutine bind_one(self, comm, plan, source, destination, op, transport, check, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        integer, intent(in) :: comm
        type(datamover_plan), intent(in) :: plan
        type(datamover_array), intent(in) :: source, destination
        character(*), intent(in), optional :: op, transport
        logical, intent(in), optional :: check
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        call self%bind_several(comm, plan, [source], [destination], op, transport, check, stat, &
            errmsg)
    end subroutine

    ! The same for several arrays, sources(k) to destinations(k): what goes from one process to
    ! another goes in one message.
    subroutine bind_several(self, comm, plan, sources, destinations, op, transport, check, stat, &
        errmsg)
        class(datamover_mover), intent(inout) :: self
        integer, intent(in) :: comm
        type(datamover_plan), intent(in) :: plan
        type(datamover_array), intent(in) :: sources(:), destinations(:)
        character(*), intent(in), optional :: op, transport
        logical, intent(in), optional :: check
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        character(kind=c_char), allocatable, target :: op_text(:), transport_text(:)
        type(c_ptr) :: from(size(sources)), to(size(destinations)), made
        integer(c_int64_t) :: num_arrays
        integer(c_int) :: code, ignored, checks
        integer :: k
        code = 0
        made = c_null_ptr
        checks = 0
        if (present(check)) checks = merge(1, 0, check)
        call make_arrays(sources, from, code)
        call make_arrays(destinations, to, code)
        if (code == 0 .and. size(sources) /= size(destinations)) &
            code = refused(datamover_mismatch, 'there are '//text_of(size(sources))// &
            ' sources and '//text_of(size(destinations))//' destinations')
        if (code == 0 .and. c_associated(self%handle)) &
            code = refused(datamover_invalid_state, 'the mover is bound; free it first')
        num_arrays = size(sources)
        op_text = c_text(op)
        transport_text = c_text(transport)
        code = c_bind(made, int(comm, c_int), code, plan%handle, num_arrays, from, to, &
            text_at(op_text, present(op)), text_at(transport_text, present(transport)), checks)
        do k = 1, size(from)
            ignored = c_array_free(from(k))
        end do
        do k = 1, size(to)
            ignored = c_array_free(to(k))
        end do
        if (code == 0) self%handle = made
        call conclude(code, stat, errmsg)
    end subroutine

    subroutine make_arrays(arrays, handles, code)
        type(datamover_array), intent(in) :: arrays(:)
        type(c_ptr), intent(out) :: handles(:)
        integer(c_int), intent(inout) :: code
        integer :: k
        do k = 1, size(arrays)
            handles(k) = c_null_ptr
            if (code == 0) code = c_array(handles(k), arrays(k)%layout, arrays(k)%attached)
        end do
    end subroutine

    function c_text(text) result(characters)
        character(*), intent(in), optional :: text
        character(kind=c_char), allocatable :: characters(:)
        integer :: i
        if (.not. present(text)) then
            characters = [c_null_char]
            return
        end if
        allocate (characters(len_trim(text) + 1))
        do i = 1, len_trim(text)
            characters(i) = text(i:i)
        end do
        characters(size(characters)) = c_null_char
    end function

    function text_at(characters, given) result(at)
        character(kind=c_char), target, intent(in) :: characters(:)
        logical, intent(in) :: given
        type(c_ptr) :: at
        at = c_null_ptr
        if (given) at = c_loc(characters(1))
    end function

    ! Begins to move, without waiting for other processes. Until wait returns the program writes
    ! neither source nor destination, and does not read the destination.
    subroutine start(self, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        call conclude(c_start(self%handle), stat, errmsg)
    end subroutine

    ! Does what can be done now; `done` tells whether that was all.
    subroutine test(self, done, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        logical, intent(out) :: done
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int) :: flag, code
        flag = 0
        code = c_test(self%handle, flag)
        done = flag /= 0
        call conclude(code, stat, errmsg)
    end subroutine

    ! Returns when the destination is complete here and the source may be overwritten; after
    ! `timeout` seconds with datamover_timeout, and the mover is still in flight.
    subroutine wait_for(self, timeout, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        real(c_double), intent(in), optional :: timeout
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        real(c_double) :: limit
        limit = -1
        if (present(timeout)) limit = timeout
        call conclude(c_wait(self%handle, limit), stat, errmsg)
    end subroutine

    ! start and wait.
    subroutine move(self, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        call conclude(c_move(self%handle), stat, errmsg)
    end subroutine

    ! datamover_invalid_state, and nothing freed, while the mover is in flight.
    subroutine free_mover(self, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        call conclude(c_mover_free(self%handle), stat, errmsg)
    end subroutine

    ! Frees also in flight: the other processes get datamover_peer_failed where they wait.
    subroutine give_up(self, stat, errmsg)
        class(datamover_mover), intent(inout) :: self
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        call conclude(c_give_up(self%handle), stat, errmsg)
    end subroutine

end module
