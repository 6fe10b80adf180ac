! SPDX-License-Identifier: BSD-3-Clause
! Expectations of a test on several processes: it fails if an expectation fails on any process.
module expectations
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: begin_test, expect, end_test, test_sum

    integer(c_int), public, protected :: comm, rank, nprocs
    integer(c_int) :: wrong = 0

    interface
        subroutine test_start_mpi(comm, rank, nprocs) bind(c)
            import :: c_int
            integer(c_int), intent(out) :: comm, rank, nprocs
        end subroutine
        function test_sum(comm, value) bind(c) result(total)
            import :: c_int
            integer(c_int), value :: comm, value
            integer(c_int) :: total
        end function
        subroutine test_stop_mpi() bind(c)
        end subroutine
    end interface

contains

    subroutine begin_test()
        call test_start_mpi(comm, rank, nprocs)
    end subroutine

    subroutine expect(holds, what)
        logical, intent(in) :: holds
        character(*), intent(in) :: what
        if (holds) return
        wrong = wrong + 1
        print *, 'process', rank, ': ', what
    end subroutine

    ! Stops with an error where any process has expected in vain.
    subroutine end_test()
        integer(c_int) :: all_wrong
        all_wrong = test_sum(comm, wrong)
        call test_stop_mpi()
        if (all_wrong > 0) error stop 'wrong'
    end subroutine

end module
