! SPDX-License-Identifier: BSD-3-Clause
! Receiving the arrays of a stream.
submodule (datamover) datamover_stream_sources
    implicit none

    ! C's datamover_source_options.
    type, bind(c) :: source_options
        type(c_ptr) :: token = c_null_ptr
        real(c_double) :: timeout_seconds = 0
        integer(c_int64_t) :: ahead = 0
        integer(c_int) :: no_shared_memory = 0, newest = 0
    end type

    interface
        function c_connect(source, comm, so_far, address, options) &
            bind(c, name='datamover_fortran_stream_connect') result(code)
            import :: c_ptr, c_int, c_char, source_options
            type(c_ptr), intent(inout) :: source
            integer(c_int), value :: comm, so_far
            character(kind=c_char), intent(in) :: address(*)
            type(source_options), intent(in) :: options
            integer(c_int) :: code
        end function
        function c_subscribe(source, count, names, arrays) &
            bind(c, name='datamover_stream_subscribe') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: source
            integer(c_int64_t), value :: count
            type(c_ptr), intent(in) :: names(*), arrays(*)
            integer(c_int) :: code
        end function
        function c_refuse(source, why, message) bind(c, name='datamover_stream_source_refuse') &
            result(code)
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: source
            integer(c_int), value :: why
            character(kind=c_char), intent(in) :: message(*)
            integer(c_int) :: code
        end function
        function c_next(source, timeout_seconds, step) bind(c, name='datamover_stream_next') &
            result(code)
            import :: c_ptr, c_int, c_int64_t, c_double
            type(c_ptr), value :: source
            real(c_double), value :: timeout_seconds
            integer(c_int64_t), intent(inout) :: step
            integer(c_int) :: code
        end function
        function c_has(source, name, has) bind(c, name='datamover_stream_has') result(code)
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: source
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), intent(inout) :: has
            integer(c_int) :: code
        end function
    end interface
    procedure(c_free_function), bind(c, name='datamover_stream_disconnect') :: c_disconnect

contains

    module procedure connect
        type(source_options) :: options
        character(:), allocatable, target :: token_text
        type(c_ptr) :: made
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        if (c_associated(self%handle)) &
            code = refused(datamover_invalid_state, 'the source is connected; free it first')
        token_text = c_text(token)
        options%token = text_at(token_text, present(token))
        if (present(timeout)) options%timeout_seconds = timeout
        if (present(ahead)) options%ahead = ahead
        if (present(newest)) options%newest = merge(1, 0, newest)
        if (present(shared_memory)) options%no_shared_memory = merge(0, 1, shared_memory)
        code = c_connect(made, int(comm, c_int), code, trim(address)//c_null_char, options)
        if (code == 0) self%handle = made
        call conclude(code, stat, errmsg)
    end procedure

    module procedure subscribe_one
        call self%subscribe_several([name], [array], stat, errmsg)
    end procedure

    module procedure subscribe_several
        character(len(names) + 1), target :: texts(size(names))
        type(c_ptr) :: texts_at(size(names)), into(size(arrays))
        integer(c_int) :: code
        integer :: k
        code = 0
        do k = 1, size(arrays)
            call make_array(arrays(k), into(k), code)
        end do
        do k = 1, size(names)
            texts(k) = c_text(names(k))
            texts_at(k) = text_at(texts(k), .true.)
        end do
        if (code == 0 .and. size(names) /= size(arrays)) &
            code = refused(datamover_mismatch, 'there are '//text_of(size(names))// &
            ' names and '//text_of(size(arrays))//' arrays')
        if (code == 0) then
            code = c_subscribe(self%handle, size(names, kind=c_int64_t), texts_at, into)
        else
            code = c_refuse(self%handle, code, last_message()//c_null_char)
        end if
        call free_array(into)
        call conclude(code, stat, errmsg)
    end procedure

    module procedure next_step
        real(c_double) :: limit
        limit = -1
        if (present(timeout)) limit = timeout
        step = datamover_no_step
        call conclude(c_next(self%handle, limit, step), stat, errmsg)
    end procedure

    module procedure has_array
        integer(c_int) :: flag, code
        flag = 0
        code = c_has(self%handle, trim(name)//c_null_char, flag)
        sent = flag /= 0
        call conclude(code, stat, errmsg)
    end procedure

    module procedure free_source
        call conclude(c_disconnect(self%handle))
    end procedure

end submodule
