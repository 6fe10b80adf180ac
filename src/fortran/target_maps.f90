! SPDX-License-Identifier: BSD-3-Clause
! Target maps.
submodule (datamover) datamover_target_maps
    implicit none

    ! C's datamover_cell_box.
    type, bind(c) :: cell_box
        integer(c_int) :: dims
        type(c_ptr) :: lo, hi, cells
        integer(c_int) :: periodic
    end type

    interface
        function c_modulo(map, nprocs) bind(c, name='datamover_target_map_modulo') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: map
            integer(c_int64_t), value :: nprocs
            integer(c_int) :: code
        end function
        function c_block(map, first_key, total, nprocs) &
            bind(c, name='datamover_target_map_block') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: map
            integer(c_int64_t), value :: first_key, total, nprocs
            integer(c_int) :: code
        end function
        function c_splitters(map, elem_type, values, nprocs) &
            bind(c, name='datamover_target_map_splitters') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: map
            integer(c_int), value :: elem_type
            type(c_ptr), value :: values
            integer(c_int64_t), value :: nprocs
            integer(c_int) :: code
        end function
        function c_cells(map, box, order, owners, nprocs) &
            bind(c, name='datamover_target_map_cells') result(code)
            import :: c_ptr, c_int, c_int64_t, cell_box
            type(c_ptr), intent(inout) :: map
            type(cell_box), intent(in) :: box
            type(c_ptr), value :: order, owners
            integer(c_int64_t), value :: nprocs
            integer(c_int) :: code
        end function
        function c_ranks(map, keys, num_ranks, to) &
            bind(c, name='datamover_fortran_target_ranks') result(code)
            import :: c_ptr, c_int, c_int64_t, datamover_memory
            type(c_ptr), value :: map
            type(datamover_memory), intent(in) :: keys
            integer(c_int64_t), value :: num_ranks
            integer(c_int64_t), intent(inout) :: to(*)
            integer(c_int) :: code
        end function
    end interface
    procedure(c_free_function), bind(c, name='datamover_target_map_free') :: c_free

    ! C's datamover_type.
    integer(c_int), parameter :: type_int64 = 4, type_float64 = 10

contains

    module procedure modulo_map
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_modulo(made, int(nprocs, c_int64_t))
        call replace(self%handle, c_free, made, code, stat, errmsg)
    end procedure

    module procedure block_map
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_block(made, 1_c_int64_t, total, int(nprocs, c_int64_t))
        call replace(self%handle, c_free, made, code, stat, errmsg)
    end procedure

    module procedure splitters
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
            code = c_splitters(made, type_float64, c_loc(reals), nprocs)
        class default
            call widen(values, 0, -1, 'values', integers, code)
            if (code == 0) code = c_splitters(made, type_int64, c_loc(integers), nprocs)
        end select
        call replace(self%handle, c_free, made, code, stat, errmsg)
    end procedure

    module procedure cells
        real(c_double), allocatable, target :: low(:), high(:)
        integer(c_int64_t), allocatable, target :: counts(:), table(:)
        character(:), allocatable, target :: order_text
        type(cell_box) :: box
        type(c_ptr) :: made, table_at
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        table_at = c_null_ptr
        allocate (low(size(lo)), source=lo)
        allocate (high(size(hi)), source=hi)
        call widen(numbers, 0, size(lo), 'numbers', counts, code)
        if (code == 0 .and. size(hi) /= size(lo)) code = refused(datamover_mismatch, &
            'lo and hi are of '//text_of(size(lo))//' and '//text_of(size(hi))//' dimensions')
        if (present(owners)) then
            call widen(owners, 0, -1, 'owners', table, code)
            if (code == 0) then
                if (size(table, kind=c_int64_t) /= product(counts)) then
                    code = refused(datamover_mismatch, 'owners are not as many as there are cells')
                else
                    table_at = c_loc(table)
                end if
            end if
        end if
        if (code == 0) then
            order_text = c_text(order)
            box = cell_box(size(low), c_loc(low), c_loc(high), c_loc(counts), 0)
            if (present(periodic)) box%periodic = merge(1, 0, periodic)
            code = c_cells(made, box, text_at(order_text, present(order)), table_at, &
                int(nprocs, c_int64_t))
        end if
        call replace(self%handle, c_free, made, code, stat, errmsg)
    end procedure

    module procedure ranks
        integer(c_int64_t), allocatable :: found(:)
        integer(c_int) :: code
        allocate (found(size(to)), source=datamover_no_target)
        code = c_ranks(self%handle, keys, size(to, kind=c_int64_t), found)
        to = found
        call conclude(code, stat, errmsg)
    end procedure

    module procedure free_target_map
        call conclude(c_free(self%handle))
    end procedure

end submodule
