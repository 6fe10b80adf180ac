! SPDX-License-Identifier: BSD-3-Clause
! Streams: Fortran programs that send their arrays to each other while they run. Here one program
! contains both ends.
program streams
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi
    use datamover
    implicit none
    integer, parameter :: n = 60, steps = 3
    type(datamover_layout) :: slabs, cyclic
    type(datamover_array) :: pressure, there
    type(datamover_stream) :: out
    type(datamover_stream_source) :: source
    double precision, allocatable, asynchronous :: p(:), q(:)
    character(:), allocatable :: address
    integer, allocatable :: extents(:), blocks(:)
    integer(int64), allocatable :: global(:)
    integer(int64) :: number
    integer :: rank, nprocs, error, step, i

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, nprocs, error)

    ! The program that sends. The other one needs its address, such as 'tcp://127.0.0.1:5777'.
    call slabs%create_block_cyclic([n], '(block)', nprocs)
    call slabs%local_shape(rank, extents)
    allocate (p(extents(1)))
    call slabs%blocks_of(rank, blocks)
    call pressure%attach(slabs, datamover_memory(p), merge(blocks(1), 0, size(blocks) > 0))
    ! The first step waits for it.
    call out%create(MPI_COMM_WORLD, 'tcp://127.0.0.1:0', consumers=1)
    call out%address(address)

    ! The program that receives, in a layout of its own.
    call cyclic%create_block_cyclic([n], '(cyclic)', nprocs)
    call cyclic%local_shape(rank, extents)
    allocate (q(extents(1)))
    call cyclic%blocks_of(rank, blocks)
    call there%attach(cyclic, datamover_memory(q), merge(blocks(1), 0, size(blocks) > 0))
    call source%create(MPI_COMM_WORLD, address)
    call source%subscribe('pressure', there)

    do step = 1, steps
        ! Here it computes; then each point is its index, and the step's number.
        do i = 1, size(p)
            call slabs%global_index(rank, [i], global)
            p(i) = global(1) + 1000 * step
        end do
        call out%send('pressure', pressure, step=step)

        call source%next(number)
        do i = 1, size(q)
            call cyclic%global_index(rank, [i], global)
            if (q(i) /= global(1) + 1000 * number) error stop 'a wrong element'
        end do
    end do
    call out%close()
    call source%next(number)
    if (number /= datamover_no_step) error stop 'a step too many'
    if (rank == 0) print '(a, i0, a, i0, a)', 'streams: ', steps, ' steps on ', nprocs, ' processes'

    call source%free()
    call out%free()
    call pressure%detach()
    call there%detach()
    call slabs%free()
    call cyclic%free()
    call MPI_Finalize(error)
end program
