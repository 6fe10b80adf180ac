! SPDX-License-Identifier: BSD-3-Clause
! Status of failed calls, and conversion of arguments to C.
submodule (datamover) datamover_errors
    implicit none

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
        function c_dims(layout, dims) bind(c, name='datamover_layout_dims') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: layout
            integer(c_int), intent(inout) :: dims
            integer(c_int) :: code
        end function
    end interface

contains

    module procedure conclude
        character(:), allocatable :: message
        if (present(stat)) stat = code
        if (code == datamover_success) return
        message = last_message()
        if (present(errmsg)) errmsg = message
        if (.not. present(stat)) error stop 'datamover: '//message
    end procedure

    ! Declared in full, since gfortran 13 and 14 do not see here that `free` is a procedure with an
    ! explicit interface.
    module subroutine replace(handle, free, made, code, stat, errmsg)
        type(c_ptr), intent(inout) :: handle
        procedure(c_free_function) :: free
        type(c_ptr), intent(in) :: made
        integer(c_int), intent(in) :: code
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        integer(c_int) :: so_far
        so_far = code
        if (so_far == datamover_success) so_far = free(handle)
        if (so_far == datamover_success) handle = made
        call conclude(so_far, stat, errmsg)
    end subroutine

    module procedure last_message
        message = text_from(c_error_message())
    end procedure

    module procedure text_from
        character(kind=c_char), pointer :: characters(:)
        integer :: length, i
        length = int(c_strlen(at))
        call c_f_pointer(at, characters, [length])
        allocate (character(length) :: text)
        do i = 1, length
            text(i:i) = characters(i)
        end do
    end procedure

    module procedure refused
        same = c_error_set(int(code, c_int), message//c_null_char)
    end procedure

    module procedure text_of
        character(12) :: digits
        write (digits, '(i0)') number
        text = trim(digits)
    end procedure

    module procedure widen
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
    end procedure

    module procedure c_text
        characters = c_null_char
        if (present(text)) characters = trim(text)//c_null_char
    end procedure

    module procedure text_at
        at = c_null_ptr
        if (given) at = c_loc(characters)
    end procedure

    module procedure axes_from_0
        from_0 = int(axes, c_int) - 1
    end procedure

    module procedure dims_of
        dims = 0
        if (code == 0) code = c_dims(layout, dims)
    end procedure

end submodule
