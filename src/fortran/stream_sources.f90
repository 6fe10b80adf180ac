! SPDX-License-Identifier: BSD-3-Clause
! Receiving the arrays of a stream: selecting one or several.
submodule (datamover) datamover_stream_sources
    use datamover_c
    use datamover_calls
    implicit none

contains

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
