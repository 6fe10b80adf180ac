! SPDX-License-Identifier: BSD-3-Clause
! Layouts whose arguments are tables.
submodule (datamover) datamover_layouts
    use datamover_c
    use datamover_calls
    implicit none

contains

    module procedure layout_create_floor_plan
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        if (any(shape(lo) /= shape(hi)) .or. size(lo, 2) /= size(owners)) then
            code = refused(datamover_mismatch, 'lo, hi and owners are of different numbers of blocks')
        else
            code = datamover_layout_create_floor_plan(size(lo, 1), int(size(lo, 2), c_int64_t), &
                reshape(int(lo, c_int64_t) - 1, [size(lo)]), &
                reshape(int(hi, c_int64_t), [size(hi)]), int(owners, c_int64_t), &
                int(nprocs, c_int64_t), made)
        end if
        call replace(self%handle, datamover_layout_free, made, code, stat, errmsg)
    end procedure

    module procedure layout_with_owners
        integer(int64) :: blocks_there
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = datamover_layout_num_blocks(blocks%handle, blocks_there)
        if (code == 0 .and. size(owners, kind=int64) /= blocks_there) &
            code = refused(datamover_mismatch, 'owners are of another number of blocks than there are')
        if (code == 0) code = datamover_layout_with_owners(blocks%handle, int(owners, c_int64_t), &
            int(nprocs, c_int64_t), made)
        call replace(self%handle, datamover_layout_free, made, code, stat, errmsg)
    end procedure

    module procedure layout_blocks_of
        integer(c_int64_t), allocatable :: found(:)
        integer(c_int64_t) :: held, written
        integer(c_int) :: code
        held = 0
        written = 0
        code = datamover_layout_blocks_of(self%handle, int(rank, c_int64_t), found, 0_c_int64_t, held)
        allocate (found(max(held, 1_c_int64_t)), source=0_c_int64_t)
        if (code == 0) code = datamover_layout_blocks_of(self%handle, int(rank, c_int64_t), found, &
            held, written)
        if (code /= 0) written = 0
        blocks = int(found(1:written)) + 1
        call conclude(code, stat, errmsg)
    end procedure

end submodule
