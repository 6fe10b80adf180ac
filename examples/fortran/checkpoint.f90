! SPDX-License-Identifier: BSD-3-Clause
! Checkpoint of a matrix: saved from a distribution by rows, loaded in tiles.
program checkpoint
    use mpi_f08
    use datamover
    implicit none
    integer, parameter :: n = 12
    type(datamover_layout) :: rows, tiles
    type(datamover_array) :: saved, loaded
    double precision, allocatable, asynchronous :: a(:, :), b(:, :)
    integer, allocatable :: extents(:), blocks(:)
    integer(kind=8), allocatable :: global(:)
    integer :: rank, nprocs, i, j

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nprocs)

    ! This process's rows, each a(i, j) = 100 i + j in the indices of the whole matrix.
    call rows%create_block_cyclic([n, n], '(block, *)', nprocs)
    call rows%local_shape(rank, extents)
    allocate (a(extents(1), extents(2)))
    do j = 1, extents(2)
        do i = 1, extents(1)
            call rows%global_index(rank, [i, j], global)
            a(i, j) = 100 * global(1) + global(2)
        end do
    end do
    call rows%blocks_of(rank, blocks)
    call saved%attach(rows, datamover_memory(a), merge(blocks(1), 0, size(blocks) > 0))
    call saved%save(MPI_COMM_WORLD%MPI_VAL, 'matrix.npy', overwrite=.true.)

    ! A program on any number of processes can do this.
    call tiles%create_block_cyclic([n, n], '(cyclic(2), cyclic(3))', nprocs)
    call tiles%local_shape(rank, extents)
    allocate (b(extents(1), extents(2)))
    call tiles%blocks_of(rank, blocks)
    call loaded%attach(tiles, datamover_memory(b), merge(blocks(1), 0, size(blocks) > 0))
    call loaded%load(MPI_COMM_WORLD%MPI_VAL, 'matrix.npy')
    do j = 1, extents(2)
        do i = 1, extents(1)
            call tiles%global_index(rank, [i, j], global)
            if (b(i, j) /= 100 * global(1) + global(2)) error stop 'a wrong element'
        end do
    end do
    if (rank == 0) print '(a, i0, a)', 'checkpoint: matrix.npy, saved and loaded by ', nprocs, &
        ' processes'

    call saved%detach()
    call loaded%detach()
    call rows%free()
    call tiles%free()
    call MPI_Finalize()
end program
