! SPDX-License-Identifier: BSD-3-Clause
! Movers.
submodule (datamover) datamover_movers
    implicit none

    interface
        function c_bind(mover, comm, so_far, plan, num_arrays, sources, destinations, op, &
            transport, check) bind(c, name='datamover_fortran_bind') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: mover
            integer(c_int), value :: comm, so_far, check
            type(c_ptr), value :: plan, op, transport
            integer(c_int64_t), value :: num_arrays
            type(c_ptr), intent(in) :: sources(*), destinations(*)
            integer(c_int) :: code
        end function
        function c_start(mover) bind(c, name='datamover_mover_start') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: mover
            integer(c_int) :: code
        end function
        function c_test(mover, done) bind(c, name='datamover_mover_test') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: mover
            integer(c_int), intent(inout) :: done
            integer(c_int) :: code
        end function
        function c_wait(mover, timeout_seconds) bind(c, name='datamover_mover_wait') result(code)
            import :: c_ptr, c_int, c_double
            type(c_ptr), value :: mover
            real(c_double), value :: timeout_seconds
            integer(c_int) :: code
        end function
        function c_move(mover) bind(c, name='datamover_mover_move') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: mover
            integer(c_int) :: code
        end function
    end interface
    procedure(c_free_function), bind(c, name='datamover_mover_free') :: c_mover_free
    procedure(c_free_function), bind(c, name='datamover_mover_give_up') :: c_give_up

contains

    module procedure bind_one
        call self%bind_several(comm, plan, [source], [destination], op, transport, check, stat, &
            errmsg)
    end procedure

    module procedure bind_several
        character(:), allocatable, target :: op_text, transport_text
        type(c_ptr) :: from(size(sources)), to(size(destinations)), made
        integer(c_int64_t) :: num_arrays
        integer(c_int) :: code, checks
        integer :: k
        code = 0
        made = c_null_ptr
        checks = 0
        if (present(check)) checks = merge(1, 0, check)
        do k = 1, size(sources)
            call make_array(sources(k), from(k), code)
        end do
        do k = 1, size(destinations)
            call make_array(destinations(k), to(k), code)
        end do
        if (code == 0 .and. size(sources) /= size(destinations)) &
            code = refused(datamover_mismatch, 'there are '//text_of(size(sources))// &
            ' sources and '//text_of(size(destinations))//' destinations')
        if (code == 0 .and. c_associated(self%handle)) &
            code = refused(datamover_invalid_state, 'the mover is bound; free it first')
        num_arrays = size(sources)
        op_text = c_text(op)
        transport_text = c_text(transport)
        code = c_bind(made, int(comm, c_int), code, plan%handle, num_arrays, from, to, &
            text_at(op_text, present(op)), text_at(transport_text, present(transport)), checks)
        call free_array(from)
        call free_array(to)
        if (code == 0) self%handle = made
        call conclude(code, stat, errmsg)
    end procedure

    module procedure start
        call conclude(c_start(self%handle), stat, errmsg)
    end procedure

    module procedure test
        integer(c_int) :: flag, code
        flag = 0
        code = c_test(self%handle, flag)
        done = flag /= 0
        call conclude(code, stat, errmsg)
    end procedure

    module procedure wait_for
        real(c_double) :: limit
        limit = -1
        if (present(timeout)) limit = timeout
        call conclude(c_wait(self%handle, limit), stat, errmsg)
    end procedure

    module procedure move
        call conclude(c_move(self%handle), stat, errmsg)
    end procedure

    module procedure free_mover
        call conclude(c_mover_free(self%handle), stat, errmsg)
    end procedure

    module procedure give_up
        call conclude(c_give_up(self%handle), stat, errmsg)
    end procedure

end submodule
