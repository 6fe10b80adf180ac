! SPDX-License-Identifier: BSD-3-Clause
! Movers and stream sources of one array or of several.
submodule (datamover) datamover_several_arrays
    use datamover_c
    use datamover_calls
    implicit none

contains

    module procedure mover_create_one
        call self%create(comm, plan, [source], [destination], op, transport, check, stat, errmsg)
    end procedure

    module procedure mover_create_several
        character(:), allocatable, target :: c_op, c_transport
        type(c_ptr), target :: from(size(sources)), to(size(destinations))
        type(datamover_mover_options) :: options
        type(datamover_move) :: move(1)
        type(c_ptr) :: made
        integer(c_int) :: code
        integer :: k
        code = 0
        made = c_null_ptr
        do k = 1, size(sources)
            call make_array(sources(k)%handle, from(k), code)
        end do
        do k = 1, size(destinations)
            call make_array(destinations(k)%handle, to(k), code)
        end do
        if (code == 0 .and. size(sources) /= size(destinations)) &
            code = refused(datamover_mismatch, 'there are '//text_of(size(sources))// &
            ' sources and '//text_of(size(destinations))//' destinations')
        if (code == 0 .and. c_associated(self%handle)) &
            code = refused(datamover_invalid_state, 'the mover is bound; free it first')
        if (present(op)) c_op = trim(op)//c_null_char
        if (present(transport)) c_transport = trim(transport)//c_null_char
        options%op = text_at(c_op)
        options%transport = text_at(c_transport)
        options%check = c_flag(check)
        move(1) = datamover_move(plan%handle, size(sources), c_loc(from), c_loc(to))
        code = datamover_fortran_mover_create_set(int(comm, c_int), code, move, 1_c_int64_t, 1, &
            options, made)
        call free_array(from)
        call free_array(to)
        if (code == 0) self%handle = made
        call conclude(code, stat, errmsg)
    end procedure

    module procedure stream_source_subscribe_one
        call self%subscribe([name], [array], stat, errmsg)
    end procedure

    module procedure stream_source_subscribe_several
        character(len(names) + 1), target :: texts(size(names))
        type(c_ptr) :: texts_at(size(names)), into(size(arrays))
        integer(c_int) :: code
        integer :: k
        code = 0
        do k = 1, size(arrays)
            call make_array(arrays(k)%handle, into(k), code)
        end do
        do k = 1, size(names)
            texts(k) = trim(names(k))//c_null_char
            texts_at(k) = characters_at(texts(k))
        end do
        if (code == 0 .and. size(names) /= size(arrays)) &
            code = refused(datamover_mismatch, 'there are '//text_of(size(names))// &
            ' names and '//text_of(size(arrays))//' arrays')
        if (code == 0) then
            code = datamover_source_subscribe(self%handle, size(names, kind=c_int64_t), texts_at, into)
        else
            code = datamover_source_join_as_failed(self%handle, code, last_message()//c_null_char)
        end if
        call free_array(into)
        call conclude(code, stat, errmsg)
    end procedure

end submodule
