! SPDX-License-Identifier: BSD-3-Clause
! Status of failed calls, and conversion of arguments to C.
module datamover_calls
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64
    use datamover_c
    implicit none
    public

    interface
        function c_strlen(text) bind(c, name='strlen') result(length)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    ! Return the code and its message to the caller, or stop if the caller did not pass `stat`.
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

    ! Replace a handle with the one that a call made, and conclude the call.
    subroutine replace(handle, free, made, code, stat, errmsg)
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

    ! The message of the last call that failed.
    function last_message() result(message)
        character(:), allocatable :: message
        message = text_from(datamover_error_message())
    end function

    ! Set the message of an error, and return its code.
    function refused(code, message) result(same)
        integer(c_int), intent(in) :: code
        character(*), intent(in) :: message
        integer(c_int) :: same
        same = datamover_error_set(code, message//c_null_char)
    end function

    ! Fail unless all of some optional arguments are given, or none.
    subroutine check_together(given, names, code)
        logical, intent(in) :: given(:)
        character(*), intent(in) :: names
        integer(c_int), intent(inout) :: code
        if (code == 0 .and. any(given) .and. .not. all(given)) &
            code = refused(datamover_invalid_argument, &
            'only some of '//names//' are given; pass all or none')
    end subroutine

    ! Fail unless a vector has as many entries as there are dimensions.
    subroutine check_size(entries, dims, name, code)
        integer, intent(in) :: entries
        integer(c_int), intent(in) :: dims
        character(*), intent(in) :: name
        integer(c_int), intent(inout) :: code
        if (code == 0 .and. entries /= dims) code = refused(datamover_mismatch, name//' has '// &
            text_of(entries)//' entries; there are '//text_of(int(dims))//' dimensions')
    end subroutine

    ! Copy a C string.
    function text_from(at) result(text)
        type(c_ptr), intent(in) :: at
        character(:), allocatable :: text
        character(kind=c_char), pointer :: characters(:)
        integer :: length, i
        length = int(c_strlen(at))
        call c_f_pointer(at, characters, [length])
        allocate (character(length) :: text)
        do i = 1, length
            text(i:i) = characters(i)
        end do
    end function

    ! A number in decimal digits.
    function text_of(number) result(text)
        integer, intent(in) :: number
        character(:), allocatable :: text
        character(12) :: digits
        write (digits, '(i0)') number
        text = trim(digits)
    end function

    ! The address of a C string; NULL if there is none.
    function text_at(text) result(at)
        character(:), allocatable, target, intent(in) :: text
        type(c_ptr) :: at
        at = c_null_ptr
        if (allocated(text)) at = characters_at(text)
    end function

    ! The address of characters.
    function characters_at(characters) result(at)
        character(*), target, intent(in) :: characters
        type(c_ptr) :: at
        at = c_loc(characters)
    end function

    ! Copy texts to C strings, and get their addresses.
    subroutine end_texts(texts, ended, at)
        character(*), intent(in) :: texts(:)
        character(*), target, intent(out) :: ended(:)
        type(c_ptr), intent(out) :: at(:)
        integer :: k
        do k = 1, size(texts)
            ended(k) = trim(texts(k))//c_null_char
            at(k) = characters_at(ended(k))
        end do
    end subroutine

    ! The address of the first entry; NULL if there is none.
    function vector_at(values) result(at)
        integer(c_int64_t), allocatable, target, intent(in) :: values(:)
        type(c_ptr) :: at
        at = c_null_ptr
        if (allocated(values)) then
            if (size(values) > 0) at = c_loc(values)
        end if
    end function

    ! C's flag; `default` if there is none.
    function c_flag(flag, default) result(number)
        logical, intent(in), optional :: flag
        logical, intent(in), optional :: default
        integer(c_int) :: number
        number = 0
        if (present(default)) number = merge(1, 0, default)
        if (present(flag)) number = merge(1, 0, flag)
    end function

    ! Convert indices of either size to 64 bits, with `shift` added. Fails for other types, and if
    ! they are not `count` (below 0: any number).
    subroutine widen(values, shift, count, name, wide, code)
        class(*), intent(in) :: values(:)
        integer, intent(in) :: shift, count
        character(*), intent(in) :: name
        integer(c_int64_t), allocatable, intent(out) :: wide(:)
        integer(c_int), intent(inout) :: code
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
        if (count >= 0) call check_size(size(wide), count, name, code)
        if (code == 0 .and. shift < 0 .and. any(wide == -huge(wide) - 1)) &
            code = refused(datamover_out_of_range, name//' is too small')
        if (code == 0) wide = wide + shift
    end subroutine

    ! The number of a step: an integer of 32 or 64 bits from 0, or none.
    subroutine number_step(step, number, code)
        class(*), intent(in), optional :: step
        integer(c_int64_t), intent(out) :: number
        integer(c_int), intent(inout) :: code
        number = datamover_next_step
        if (.not. present(step) .or. code /= 0) return
        select type (step)
        type is (integer(int32))
            number = step
        type is (integer(int64))
            number = step
        class default
            code = refused(datamover_invalid_argument, 'step is not an integer')
            return
        end select
        if (number < 0) code = refused(datamover_invalid_argument, 'step is below 0')
    end subroutine

    ! Convert ranks to 64 bits, with one entry more: an array without elements has no address.
    subroutine number_ranks(ranks, wide)
        integer, intent(in) :: ranks(:)
        integer(c_int64_t), allocatable, intent(out) :: wide(:)
        allocate (wide(size(ranks) + 1), source=0_c_int64_t)
        wide(:size(ranks)) = ranks
    end subroutine

    ! C's number of the format of a file.
    function file_format(name, code) result(format)
        character(*), intent(in) :: name
        integer(c_int), intent(inout) :: code
        integer(c_int) :: format
        format = datamover_file_by_name
        select case (name)
        case ('raw')
            format = datamover_file_raw
        case ('npy')
            format = datamover_file_npy
        case default
            if (code == 0) code = refused(datamover_invalid_argument, &
                "format is '"//trim(name)//"'; it must be 'npy' or 'raw'")
        end select
    end function

    ! The number of dimensions of a layout; 0 if `code` is an error.
    function dims_of(layout, code) result(dims)
        type(c_ptr), intent(in) :: layout
        integer(c_int), intent(inout) :: code
        integer(c_int) :: dims
        dims = 0
        if (code == 0) code = datamover_layout_dims(layout, dims)
    end function

    ! The number of dimensions of a plan's layout on a side.
    function plan_dims(plan, side, code) result(dims)
        type(c_ptr), intent(in) :: plan
        integer(c_int), intent(in) :: side
        integer(c_int), intent(inout) :: code
        integer(c_int) :: dims, ignored
        type(c_ptr) :: layout
        layout = c_null_ptr
        if (code == 0) code = datamover_plan_layout(plan, side, layout)
        dims = dims_of(layout, code)
        ignored = datamover_layout_free(layout)
    end function

    ! Make a handle of attached memory, for free_array; none if `code` is an error.
    subroutine make_array(attached, handle, code)
        type(c_ptr), intent(in) :: attached
        type(c_ptr), intent(out) :: handle
        integer(c_int), intent(inout) :: code
        handle = c_null_ptr
        if (code == 0) code = datamover_fortran_array(attached, handle)
    end subroutine

    ! The same for several.
    subroutine make_arrays(attached, handles, code)
        type(c_ptr), intent(in) :: attached(:)
        type(c_ptr), intent(out) :: handles(:)
        integer(c_int), intent(inout) :: code
        integer :: k
        do k = 1, size(attached)
            call make_array(attached(k), handles(k), code)
        end do
    end subroutine

    impure elemental subroutine free_array(handle)
        type(c_ptr), intent(inout) :: handle
        integer(c_int) :: ignored
        ignored = datamover_array_free(handle)
    end subroutine

end module
