! SPDX-License-Identifier: BSD-3-Clause
! Exchange of faces by a mover that is called from Fortran, for latency_languages.cpp.
module latency_halo
    use, intrinsic :: iso_c_binding
    use datamover
    implicit none

    type :: halo
        type(datamover_layout) :: layout
        type(datamover_plan) :: plan
        type(datamover_array) :: array
        type(datamover_mover) :: mover
    end type

contains

    ! Cubic blocks of `edge` points, beginning at lo(:, b); those of this process lie in `stored`
    ! with one layer of ghosts. Collective.
    function bench_halo_new(comm, edge, num_blocks, blocks, lo, owners, nprocs, num_own, numbers, &
        stored) bind(c) result(made)
        integer(c_int), value :: comm, num_blocks, nprocs, num_own
        integer(c_int64_t), value :: edge
        integer(c_int64_t), intent(in) :: blocks(3)
        integer(c_int), intent(in) :: lo(3, num_blocks), owners(num_blocks), numbers(num_own)
        type(c_ptr), intent(in) :: stored(num_own)
        type(c_ptr) :: made
        type(halo), pointer :: h
        real(c_double), pointer, asynchronous :: block(:, :, :)
        integer, parameter :: ones(3) = 1
        integer :: i
        allocate (h)
        call h%layout%create_floor_plan(lo, lo + int(edge) - 1, owners, nprocs)
        call h%plan%halo(h%layout, ones, ones, ones, blocks * edge, corners=.false.)
        do i = 1, num_own
            call c_f_pointer(stored(i), block, [edge + 2, edge + 2, edge + 2])
            call h%array%attach(h%layout, datamover_memory(block), numbers(i), ones, ones)
        end do
        call h%mover%create(comm, h%plan, h%array, h%array)
        made = c_loc(h)
    end function

    subroutine bench_halo_move(made) bind(c)
        type(c_ptr), value :: made
        type(halo), pointer :: h
        call c_f_pointer(made, h)
        call h%mover%run()
    end subroutine

    subroutine bench_halo_free(made) bind(c)
        type(c_ptr), value :: made
        type(halo), pointer :: h
        call c_f_pointer(made, h)
        call h%mover%abort()
        call h%array%detach()
        call h%plan%free()
        call h%layout%free()
        deallocate (h)
    end subroutine

end module
