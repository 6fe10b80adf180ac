! SPDX-License-Identifier: BSD-3-Clause
! Distributions of single elements.
submodule (datamover) datamover_distributions
    implicit none

    interface
        function c_distribution(distribution, comm, ranks, max_bytes, method) &
            bind(c, name='datamover_fortran_distribution') result(code)
            import :: c_ptr, c_int, c_int64_t, datamover_memory
            type(c_ptr), intent(inout) :: distribution
            integer(c_int), value :: comm
            type(datamover_memory), intent(in) :: ranks
            integer(c_int64_t), value :: max_bytes
            type(c_ptr), value :: method
            integer(c_int) :: code
        end function
        function c_by_keys(distribution, comm, map, keys, max_bytes, method) &
            bind(c, name='datamover_fortran_distribution_by_keys') result(code)
            import :: c_ptr, c_int, c_int64_t, datamover_memory
            type(c_ptr), intent(inout) :: distribution
            integer(c_int), value :: comm
            type(c_ptr), value :: map
            type(datamover_memory), intent(in) :: keys
            integer(c_int64_t), value :: max_bytes
            type(c_ptr), value :: method
            integer(c_int) :: code
        end function
        function c_elems(distribution, given, received) &
            bind(c, name='datamover_distribution_elems') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: distribution
            integer(c_int64_t), intent(inout) :: given, received
            integer(c_int) :: code
        end function
        function c_start(distribution, columns, results) &
            bind(c, name='datamover_fortran_distribution_start') result(code)
            import :: c_ptr, c_int, datamover_memory
            type(c_ptr), value :: distribution
            type(datamover_memory), intent(in) :: columns(..), results(..)
            integer(c_int) :: code
        end function
        function c_test(distribution, done) bind(c, name='datamover_distribution_test') &
            result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: distribution
            integer(c_int), intent(inout) :: done
            integer(c_int) :: code
        end function
        function c_wait(distribution, timeout_seconds) &
            bind(c, name='datamover_distribution_wait') result(code)
            import :: c_ptr, c_int, c_double
            type(c_ptr), value :: distribution
            real(c_double), value :: timeout_seconds
            integer(c_int) :: code
        end function
        function c_move(distribution, columns, results) &
            bind(c, name='datamover_fortran_distribution_move') result(code)
            import :: c_ptr, c_int, datamover_memory
            type(c_ptr), value :: distribution
            type(datamover_memory), intent(in) :: columns(..), results(..)
            integer(c_int) :: code
        end function
        function c_reverse(distribution, values, results, op) &
            bind(c, name='datamover_fortran_distribution_reverse') result(code)
            import :: c_ptr, c_int, datamover_memory
            type(c_ptr), value :: distribution
            type(datamover_memory), intent(in) :: values(..), results(..)
            type(c_ptr), value :: op
            integer(c_int) :: code
        end function
    end interface
    procedure(c_free_function), bind(c, name='datamover_distribution_free') :: c_free

contains

    module procedure to_ranks
        character(:), allocatable, target :: method_text
        integer(c_int64_t) :: limit_bytes
        type(c_ptr) :: made
        integer(c_int) :: code
        limit_bytes = 0
        if (present(max_bytes)) limit_bytes = max_bytes
        method_text = c_text(method)
        made = c_null_ptr
        code = c_distribution(made, int(comm, c_int), ranks, limit_bytes, &
            text_at(method_text, present(method)))
        call replace(self%handle, c_free, made, code, stat, errmsg)
    end procedure

    module procedure by_keys
        character(:), allocatable, target :: method_text
        integer(c_int64_t) :: limit_bytes
        type(c_ptr) :: made
        integer(c_int) :: code
        limit_bytes = 0
        if (present(max_bytes)) limit_bytes = max_bytes
        method_text = c_text(method)
        made = c_null_ptr
        code = c_by_keys(made, int(comm, c_int), map%handle, keys, limit_bytes, &
            text_at(method_text, present(method)))
        call replace(self%handle, c_free, made, code, stat, errmsg)
    end procedure

    module procedure received
        integer(c_int64_t) :: given
        count = 0
        given = 0
        call conclude(c_elems(self%handle, given, count), stat, errmsg)
    end procedure

    module procedure start_distribution
        call conclude(c_start(self%handle, columns, results), stat, errmsg)
    end procedure

    module procedure test_distribution
        integer(c_int) :: flag, code
        flag = 0
        code = c_test(self%handle, flag)
        done = flag /= 0
        call conclude(code, stat, errmsg)
    end procedure

    module procedure wait_distribution
        real(c_double) :: limit
        limit = -1
        if (present(timeout)) limit = timeout
        call conclude(c_wait(self%handle, limit), stat, errmsg)
    end procedure

    module procedure move_distribution
        call conclude(c_move(self%handle, columns, results), stat, errmsg)
    end procedure

    module procedure reverse_distribution
        character(:), allocatable, target :: op_text
        op_text = c_text(op)
        call conclude(c_reverse(self%handle, values, results, text_at(op_text, present(op))), &
            stat, errmsg)
    end procedure

    module procedure free_distribution
        call conclude(c_free(self%handle))
    end procedure

end submodule
