! SPDX-License-Identifier: BSD-3-Clause
! Memory of the program for a block of a layout.
submodule (datamover) datamover_arrays
    implicit none

    interface
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
        function c_array(array, attached) bind(c, name='datamover_fortran_array') result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: array
            type(c_ptr), value :: attached
            integer(c_int) :: code
        end function
        subroutine c_detach(attached) bind(c, name='datamover_fortran_detach')
            import :: c_ptr
            type(c_ptr), intent(inout) :: attached
        end subroutine
    end interface
    procedure(c_free_function), bind(c, name='datamover_array_free') :: c_array_free

contains

    module procedure attach
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
        if (code == 0) code = c_attach(self%attached, layout%handle, memory, &
            int(block, c_int64_t) - 1, lower_at, upper_at)
        call conclude(code, stat, errmsg)
    end procedure

    module procedure detach
        call c_detach(self%attached)
    end procedure

    module procedure make_array
        handle = c_null_ptr
        if (code == 0) code = c_array(handle, array%attached)
    end procedure

    module procedure free_array
        integer(c_int) :: ignored
        ignored = c_array_free(handle)
    end procedure

end submodule
