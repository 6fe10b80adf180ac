! SPDX-License-Identifier: BSD-3-Clause
! Halo exchange of a three-dimensional field, overlapped with the computation of its interior.
program halo
    use mpi
    use datamover
    implicit none
    integer, parameter :: n = 8
    type(datamover_layout) :: slabs
    type(datamover_plan) :: plan
    type(datamover_array) :: field
    type(datamover_mover) :: exchange
    double precision, allocatable, asynchronous :: u(:, :, :)
    double precision, allocatable :: average(:, :, :)
    double precision :: sum_before, sum_after
    integer :: rank, nprocs, error, step

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, nprocs, error)

    ! The periodic field has n x n x (n nprocs) points, a block of n x n x n to each process, with one
    ! plane of ghosts below and one above it.
    call slabs%create_uniform([1, 1, 1], [n, n, n * nprocs], [1, 1, nprocs], nprocs)
    call plan%halo(slabs, [0, 0, 1], [0, 0, 1], periodic_lo=[1, 1, 1], &
        periodic_hi=[n, n, n * nprocs])
    allocate (u(n, n, 0:n + 1), average(n, n, n))
    call field%attach(slabs, datamover_memory(u), rank + 1, ghost_lower=[0, 0, 1], ghost_upper=[0, 0, 1])
    call exchange%create(MPI_COMM_WORLD, plan, field, field)

    call random_number(u)
    sum_before = total(u(:, :, 1:n))
    do step = 1, 10
        call exchange%start()
        ! The planes between the first and the last do not wait for the ghosts.
        call smooth(2, n - 1)
        call exchange%wait()
        call smooth(1, 1)
        call smooth(n, n)
        u(:, :, 1:n) = average
    end do
    sum_after = total(u(:, :, 1:n))
    if (abs(sum_after - sum_before) > 1d-9 * sum_before) error stop 'the sum has changed'
    if (rank == 0) print '(a, i0, a)', 'halo: 10 steps on ', nprocs, ' processes keep the sum'

    call exchange%free()
    call field%detach()
    call plan%free()
    call slabs%free()
    call MPI_Finalize(error)

contains

    ! The mean of the six neighbors, in the planes first to last.
    subroutine smooth(first, last)
        integer, intent(in) :: first, last
        integer :: i, j, k
        do k = first, last
            do j = 1, n
                do i = 1, n
                    average(i, j, k) = (u(wrapped(i - 1), j, k) + u(wrapped(i + 1), j, k) + &
                        u(i, wrapped(j - 1), k) + u(i, wrapped(j + 1), k) + u(i, j, k - 1) + &
                        u(i, j, k + 1)) / 6
                end do
            end do
        end do
    end subroutine

    ! The first two dimensions are not cut: all neighbors are on this process.
    pure integer function wrapped(i)
        integer, intent(in) :: i
        wrapped = modulo(i - 1, n) + 1
    end function

    double precision function total(part)
        double precision, intent(in) :: part(:, :, :)
        call MPI_Allreduce(sum(part), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    end function

end program
