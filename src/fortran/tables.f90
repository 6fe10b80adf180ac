! SPDX-License-Identifier: BSD-3-Clause
! Layouts and target maps whose arguments are tables.
submodule (datamover) datamover_tables
    use datamover_c
    use datamover_calls
    implicit none

contains

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

    module procedure target_map_create_splitters
        real(c_double), allocatable, target :: reals(:)
        integer(c_int64_t), allocatable, target :: integers(:)
        type(c_ptr) :: made
        integer(c_int64_t) :: nprocs
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        nprocs = size(values, kind=c_int64_t) + 1
        select type (values)
        type is (real(c_double))
            reals = values
            code = datamover_target_map_create_splitters(datamover_float64, c_loc(reals), nprocs, made)
        class default
            call widen(values, 0, -1, 'values', integers, code)
            if (code == 0) &
                code = datamover_target_map_create_splitters(datamover_int64, c_loc(integers), nprocs, &
                    made)
        end select
        call replace(self%handle, datamover_target_map_free, made, code, stat, errmsg)
    end procedure

    module procedure target_map_create_cells
        real(c_double), allocatable, target :: low(:), high(:)
        integer(c_int64_t), allocatable, target :: counts(:), table(:)
        character(:), allocatable :: c_order
        type(datamover_cell_box) :: box
        type(c_ptr) :: made
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        allocate (low(size(lo)), source=lo)
        allocate (high(size(hi)), source=hi)
        call widen(numbers, 0, size(lo), 'numbers', counts, code)
        if (code == 0 .and. size(hi) /= size(lo)) code = refused(datamover_mismatch, &
            'lo and hi are of '//text_of(size(lo))//' and '//text_of(size(hi))//' dimensions')
        if (present(owners)) then
            call widen(owners, 0, -1, 'owners', table, code)
            if (code == 0) then
                if (size(table, kind=c_int64_t) /= product(counts)) &
                    code = refused(datamover_mismatch, 'owners are not as many as there are cells')
            end if
        end if
        if (present(order)) c_order = trim(order)//c_null_char
        if (code == 0) then
            box = datamover_cell_box(size(low), c_loc(low), c_loc(high), c_loc(counts), &
                c_flag(periodic))
            code = datamover_target_map_create_cells(box, c_order, table, int(nprocs, c_int64_t), made)
        end if
        call replace(self%handle, datamover_target_map_free, made, code, stat, errmsg)
    end procedure

end submodule
