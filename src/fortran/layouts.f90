! SPDX-License-Identifier: BSD-3-Clause
! Layouts.
submodule (datamover) datamover_layouts
    implicit none

    ! C's datamover_block_cyclic_options.
    type, bind(c) :: block_cyclic_options
        type(c_ptr) :: grid = c_null_ptr, first_process = c_null_ptr
        integer(c_int) :: column_major_grid = 0
        type(c_ptr) :: ranks = c_null_ptr
        integer(c_int64_t) :: num_ranks = 0, replicas = 0
    end type

    interface
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
        function c_with_owners(layout, floor_plan, owners, nprocs) &
            bind(c, name='datamover_layout_with_owners') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: layout
            type(c_ptr), value :: floor_plan
            integer(c_int64_t), intent(in) :: owners(*)
            integer(c_int64_t), value :: nprocs
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
        function c_num_blocks(layout, count) bind(c, name='datamover_layout_num_blocks') &
            result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), intent(inout) :: count
            integer(c_int) :: code
        end function
        function c_owner(layout, block, rank) bind(c, name='datamover_layout_owner') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: block
            integer(c_int64_t), intent(inout) :: rank
            integer(c_int) :: code
        end function
        function c_blocks_of(layout, rank, blocks, capacity, count) &
            bind(c, name='datamover_layout_blocks_of') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout, blocks
            integer(c_int64_t), value :: rank, capacity
            integer(c_int64_t), intent(inout) :: count
            integer(c_int) :: code
        end function
        function c_block_extents(layout, block, extents) &
            bind(c, name='datamover_layout_block_extents') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: block
            integer(c_int64_t), intent(inout) :: extents(*)
            integer(c_int) :: code
        end function
        function c_block_region(layout, block, lo, hi) &
            bind(c, name='datamover_layout_block_region') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: block
            integer(c_int64_t), intent(inout) :: lo(*), hi(*)
            integer(c_int) :: code
        end function
        function c_local_shape(layout, rank, extents) &
            bind(c, name='datamover_layout_local_shape') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: rank
            integer(c_int64_t), intent(inout) :: extents(*)
            integer(c_int) :: code
        end function
        function c_global_index(layout, rank, local, global) &
            bind(c, name='datamover_layout_global_index') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: layout
            integer(c_int64_t), value :: rank
            integer(c_int64_t), intent(in) :: local(*)
            integer(c_int64_t), intent(inout) :: global(*)
            integer(c_int) :: code
        end function
    end interface
    procedure(c_free_function), bind(c, name='datamover_layout_free') :: c_layout_free

contains

    module procedure block_cyclic
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
        call replace(self%handle, c_layout_free, made, code, stat, errmsg)
    end procedure

    module procedure floor_plan
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
        call replace(self%handle, c_layout_free, made, code, stat, errmsg)
    end procedure

    module procedure with_owners
        integer(int64) :: blocks_there
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_num_blocks(blocks%handle, blocks_there)
        if (code == 0 .and. size(owners, kind=int64) /= blocks_there) &
            code = refused(datamover_mismatch, 'owners are of another number of blocks than there are')
        if (code == 0) code = c_with_owners(made, blocks%handle, int(owners, c_int64_t), &
            int(nprocs, c_int64_t))
        call replace(self%handle, c_layout_free, made, code, stat, errmsg)
    end procedure

    module procedure uniform
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
        call replace(self%handle, c_layout_free, made, code, stat, errmsg)
    end procedure

    module procedure num_blocks
        count = 0
        call conclude(c_num_blocks(self%handle, count), stat, errmsg)
    end procedure

    module procedure owner
        integer(c_int64_t) :: found
        integer(c_int) :: code
        found = -1
        code = c_owner(self%handle, int(block, c_int64_t) - 1, found)
        rank = int(found)
        call conclude(code, stat, errmsg)
    end procedure

    module procedure blocks_of
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
    end procedure

    module procedure block_extents
        integer(c_int64_t) :: found(8)
        integer(c_int) :: code, dims
        code = 0
        found = 0
        dims = dims_of(self%handle, code)
        if (code == 0) code = c_block_extents(self%handle, int(block, c_int64_t) - 1, found)
        extents = int(found(1:dims))
        call conclude(code, stat, errmsg)
    end procedure

    module procedure block_region
        integer(c_int64_t) :: first(8), end(8)
        integer(c_int) :: code, dims
        code = 0
        first = 0
        end = 0
        dims = dims_of(self%handle, code)
        if (code == 0) code = c_block_region(self%handle, int(block, c_int64_t) - 1, first, end)
        lo = int(first(1:dims)) + 1
        hi = int(end(1:dims))
        call conclude(code, stat, errmsg)
    end procedure

    module procedure local_shape
        integer(c_int64_t) :: found(8)
        integer(c_int) :: code, dims
        code = 0
        found = 0
        dims = dims_of(self%handle, code)
        if (code == 0) code = c_local_shape(self%handle, int(rank, c_int64_t), found)
        extents = int(found(1:dims))
        call conclude(code, stat, errmsg)
    end procedure

    module procedure global_index
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
    end procedure

    module procedure free_layout
        call conclude(c_layout_free(self%handle))
    end procedure

end submodule
