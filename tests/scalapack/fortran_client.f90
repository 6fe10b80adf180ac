! SPDX-License-Identifier: BSD-3-Clause
! Fortran program that calls ScaLAPACK's p?gemr2d: it gets datamover's, with the same result.

module faults
    implicit none
    integer :: reported_argument = 0
end module

! In the place of ScaLAPACK's own, which prints.
subroutine pxerbla(context, routine, argument)
    use faults
    implicit none
    integer, intent(in) :: context, argument
    character(*), intent(in) :: routine
    reported_argument = argument
    if (routine /= 'PDGEMR2D') reported_argument = -1
    if (context < 0 .and. argument /= 11) reported_argument = -1
end subroutine

program fortran_client
    use faults
    implicit none
    integer, parameter :: m = 17, n = 11
    integer :: rank, nprocs, every, from, to, wrong
    external :: blacs_pinfo, blacs_get, blacs_gridinit, blacs_gridexit, blacs_exit, igsum2d

    call blacs_pinfo(rank, nprocs)
    call blacs_get(-1, 0, every)
    call blacs_gridinit(every, 'R', 1, nprocs)
    call blacs_get(-1, 0, from)
    call blacs_gridinit(from, 'R', nprocs, 1)
    call blacs_get(-1, 0, to)
    call blacs_gridinit(to, 'C', 1, nprocs)

    wrong = 0
    call move_doubles()
    call move_integers()
    call move_reals()
    call move_complex()
    call move_double_complex()
    call move_nonsense()
    call igsum2d(every, 'All', ' ', 1, 1, wrong, 1, -1, -1)
    if (wrong /= 0 .and. rank == 0) print *, wrong, ' elements or reports are wrong'
    call blacs_gridexit(every)
    call blacs_gridexit(from)
    call blacs_gridexit(to)
    call blacs_exit(0)
    if (wrong /= 0) stop 1

contains

    ! Descriptor and local extents of an m x n matrix on a grid.
    subroutine describe(context, mb, nb, descriptor, rows, columns)
        integer, intent(in) :: context, mb, nb
        integer, intent(out) :: descriptor(9), rows, columns
        integer :: nprow, npcol, row, column, info
        integer, external :: numroc
        external :: blacs_gridinfo, descinit
        call blacs_gridinfo(context, nprow, npcol, row, column)
        rows = numroc(m, mb, row, 0, nprow)
        columns = numroc(n, nb, column, 0, npcol)
        call descinit(descriptor, m, n, mb, nb, 0, 0, context, max(1, rows) + 2, info)
        if (info /= 0) wrong = wrong + 1
    end subroutine

    ! The number of the global element at local place (i, j).
    integer function number_at(context, descriptor, i, j)
        integer, intent(in) :: context, descriptor(9), i, j
        integer :: nprow, npcol, row, column
        integer, external :: indxl2g
        external :: blacs_gridinfo
        call blacs_gridinfo(context, nprow, npcol, row, column)
        number_at = indxl2g(i, descriptor(5), row, 0, nprow) &
            + 100 * indxl2g(j, descriptor(6), column, 0, npcol)
    end function

    subroutine move_doubles()
        double precision, allocatable :: a(:, :), b(:, :)
        integer :: desca(9), descb(9), rows, columns, i, j
        external :: pdgemr2d
        call describe(from, 2, 3, desca, rows, columns)
        allocate (a(desca(9), max(1, columns)))
        do j = 1, columns
            do i = 1, rows
                a(i, j) = number_at(from, desca, i, j)
            end do
        end do
        call describe(to, 4, 1, descb, rows, columns)
        allocate (b(descb(9), max(1, columns)))
        b = -1
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        do j = 1, columns
            do i = 1, rows
                if (nint(b(i, j)) /= number_at(to, descb, i, j)) wrong = wrong + 1
            end do
        end do
        if (any(nint(b(rows + 1:, :)) /= -1)) wrong = wrong + 1
    end subroutine

    subroutine move_integers()
        integer, allocatable :: a(:, :), b(:, :)
        integer :: desca(9), descb(9), rows, columns, i, j
        external :: pigemr2d
        call describe(from, 1, 2, desca, rows, columns)
        allocate (a(desca(9), max(1, columns)))
        do j = 1, columns
            do i = 1, rows
                a(i, j) = number_at(from, desca, i, j)
            end do
        end do
        call describe(to, 3, 3, descb, rows, columns)
        allocate (b(descb(9), max(1, columns)))
        call pigemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        do j = 1, columns
            do i = 1, rows
                if (b(i, j) /= number_at(to, descb, i, j)) wrong = wrong + 1
            end do
        end do
    end subroutine

    subroutine move_reals()
        real, allocatable :: a(:, :), b(:, :)
        integer :: desca(9), descb(9), rows, columns, i, j
        external :: psgemr2d
        call describe(from, 5, 2, desca, rows, columns)
        allocate (a(desca(9), max(1, columns)))
        do j = 1, columns
            do i = 1, rows
                a(i, j) = number_at(from, desca, i, j)
            end do
        end do
        call describe(to, 1, 2, descb, rows, columns)
        allocate (b(descb(9), max(1, columns)))
        call psgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        do j = 1, columns
            do i = 1, rows
                if (nint(b(i, j)) /= number_at(to, descb, i, j)) wrong = wrong + 1
            end do
        end do
    end subroutine

    subroutine move_complex()
        complex, allocatable :: a(:, :), b(:, :)
        integer :: desca(9), descb(9), rows, columns, i, j
        external :: pcgemr2d
        call describe(from, 2, 2, desca, rows, columns)
        allocate (a(desca(9), max(1, columns)))
        do j = 1, columns
            do i = 1, rows
                a(i, j) = cmplx(number_at(from, desca, i, j), i)
            end do
        end do
        call describe(to, 2, 2, descb, rows, columns)
        allocate (b(descb(9), max(1, columns)))
        call pcgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        do j = 1, columns
            do i = 1, rows
                if (nint(real(b(i, j))) /= number_at(to, descb, i, j)) wrong = wrong + 1
            end do
        end do
    end subroutine

    subroutine move_double_complex()
        complex(kind(1d0)), allocatable :: a(:, :), b(:, :)
        integer :: desca(9), descb(9), rows, columns, i, j
        external :: pzgemr2d
        call describe(from, 3, 2, desca, rows, columns)
        allocate (a(desca(9), max(1, columns)))
        do j = 1, columns
            do i = 1, rows
                a(i, j) = cmplx(i, number_at(from, desca, i, j), kind(1d0))
            end do
        end do
        call describe(to, 2, 5, descb, rows, columns)
        allocate (b(descb(9), max(1, columns)))
        call pzgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        do j = 1, columns
            do i = 1, rows
                if (nint(aimag(b(i, j))) /= number_at(to, descb, i, j)) wrong = wrong + 1
            end do
        end do
    end subroutine

    ! Expects a report of a position (0: none), and that the message names what is wrong.
    subroutine expect(position, word)
        integer, intent(in) :: position
        character(*), intent(in) :: word
        integer :: code, argument
        character(200) :: text
        external :: datamover_gemr2d_error
        call datamover_gemr2d_error(code, argument, text)
        if (reported_argument /= position .or. argument /= position) wrong = wrong + 1
        if ((code == 0) .neqv. (position == 0)) wrong = wrong + 1
        if ((text == ' ') .neqv. (position == 0)) wrong = wrong + 1
        if (index(text, word) == 0) wrong = wrong + 1
        if (wrong > 0 .and. rank == 0) print *, position, reported_argument, argument, trim(text)
        reported_argument = 0
    end subroutine

    ! Wrong arguments are reported by their position, and nothing is moved.
    subroutine move_nonsense()
        double precision :: a(m + 2, n), b(m + 2, n)
        integer :: desca(9), descb(9), good(9), rows, columns, local_rows, last
        external :: pdgemr2d
        last = merge(1, 0, rank == nprocs - 1 .and. nprocs > 1)
        call describe(from, 2, 3, desca, local_rows, columns)
        call describe(to, 4, 1, good, rows, columns)
        descb = good
        b = -1
        call pdgemr2d(-1, n, a, 1, 1, desca, b, 1, 1, descb, every)
        call expect(1, 'm is -1')
        call pdgemr2d(m, n, a, 1, 2, desca, b, 1, 1, descb, every)
        call expect(5, 'columns from 2')
        call pdgemr2d(m, n, a, 1, 1, desca, b, 0, 1, descb, every)
        call expect(8, 'matrix B')
        descb(5) = 0
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        call expect(1005, 'MB_ of the descriptor of matrix B is 0')
        descb = good
        descb(8) = nprocs
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        call expect(1008, 'CSRC_')
        descb = good
        descb(9) = m - 1
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        call expect(1009, 'LLD_ of the descriptor of matrix B is 16 on process 0')
        descb = good
        desca(2) = -1
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        call expect(602, 'matrix A')
        desca(2) = from
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, -1)
        call expect(11, 'context -1')
        if (nprocs > 1) then
            ! The last process alone is wrong, and all are told.
            call pdgemr2d(m - last, n, a, 1, 1, desca, b, 1, 1, descb, every)
            call expect(1, 'm is 16')
            call pdgemr2d(m, n * (1 - last), a, 1, 1, desca, b, 1, 1, descb, every)
            call expect(2, 'n is 0')
            call pdgemr2d(m - 1, n, a, 1 + last, 1, desca, b, 1, 1, descb, every)
            call expect(4, 'first row of matrix A is 2')
            desca(3) = m - last
            call pdgemr2d(1, n, a, 1, 1, desca, b, 1, 1, descb, every)
            call expect(603, 'M_')
            desca(3) = m
        end if
        if (any(nint(b) /= -1)) wrong = wrong + 1
        ! What ScaLAPACK does not look at.
        desca(1) = 4711 + last
        call pdgemr2d(m, n, a, 1, 1, desca, b, 1, 1, descb, every)
        call expect(0, ' ')
        call pdgemr2d(0, n - last, a, -7, 99, desca, b, 0, 0, descb, every)
        call expect(0, ' ')
        call pdgemr2d(m, 0, a, 1, 1, desca, b, 1, 1, descb, -1)
        call expect(0, ' ')
    end subroutine
end program
