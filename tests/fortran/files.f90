! SPDX-License-Identifier: BSD-3-Clause
! Files in Fortran: saved files contain the arrays, and loaded arrays equal the files. `files DIR
! save` writes; `files DIR load` reads that output and given.npy, on any number of processes.
program files
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
    use datamover
    use expectations
    implicit none

    ! A matrix of which a process has every second row of memory.
    type :: matrix
        type(datamover_layout) :: layout
        type(datamover_array) :: array
        real(real64), allocatable :: memory(:, :)
        integer, allocatable :: extents(:)
    end type

    ! A block of a field, with a ghost on either side in the last dimension.
    type :: field_block
        integer(int32), allocatable :: memory(:, :, :)
        integer, allocatable :: lo(:), hi(:)
    end type

    integer, parameter :: rows = 13, columns = 7, untouched = -1
    integer, parameter :: field_lo(3) = [-1, 3, 1], field_hi(3) = [4, 7, 4]
    character(500) :: directory
    character(4) :: mode

    call begin_test()
    call get_command_argument(1, directory)
    call get_command_argument(2, mode)
    if (mode == 'save') then
        call save_matrix()
        call save_field()
        call save_line()
        if (rank == 0) call write_alone()
        call refusals_of_save()
    else
        call load_matrix()
        call load_field()
        call load_line()
        call load_what_was_written()
        call refusals_of_load()
    end if
    call end_test()

contains

    function path_of(name) result(path)
        character(*), intent(in) :: name
        character(:), allocatable :: path
        path = trim(directory)//'/'//name
    end function

    logical function is_last()
        is_last = rank == nprocs - 1
    end function

    ! The block of this process, in a layout that gives each one at most; 0: none.
    integer function my_block(layout)
        type(datamover_layout), intent(in) :: layout
        integer, allocatable :: blocks(:)
        call layout%blocks_of(rank, blocks)
        my_block = 0
        if (size(blocks) > 0) my_block = blocks(1)
    end function

    subroutine make_matrix(a, distribution)
        type(matrix), intent(inout), target, asynchronous :: a
        character(*), intent(in) :: distribution
        call a%layout%create_block_cyclic([rows, columns], distribution, nprocs)
        call a%layout%local_shape(rank, a%extents)
        allocate (a%memory(2 * a%extents(1), a%extents(2)), source=real(untouched, real64))
        call a%array%attach(a%layout, datamover_memory(a%memory(::2, :)), my_block(a%layout))
    end subroutine

    subroutine free_matrix(a)
        type(matrix), intent(inout) :: a
        call a%array%detach()
        call a%layout%free()
    end subroutine

    ! Element (i, j) of the whole matrix is 1000 i + j, and `shift`; memory in between is untouched.
    subroutine expect_matrix(a, shift, what)
        type(matrix), intent(in), target, asynchronous :: a
        real(real64), intent(in) :: shift
        character(*), intent(in) :: what
        integer(int64), allocatable :: global(:)
        integer :: i, j
        do j = 1, a%extents(2)
            do i = 1, a%extents(1)
                call a%layout%global_index(rank, [i, j], global)
                call expect(a%memory(2 * i - 1, j) == 1000 * global(1) + global(2) + shift, what)
            end do
        end do
        call expect(all(a%memory(2::2, :) == untouched), what//': memory in between')
    end subroutine

    subroutine save_matrix()
        type(matrix), target, asynchronous :: a
        integer(int64), allocatable :: global(:)
        integer :: i, j, code
        character(300) :: text
        call make_matrix(a, '(cyclic(2), cyclic(3))')
        call a%array%save(comm, path_of('matrix.npy'))
        do j = 1, a%extents(2)
            do i = 1, a%extents(1)
                call a%layout%global_index(rank, [i, j], global)
                a%memory(2 * i - 1, j) = 1000 * global(1) + global(2)
            end do
        end do
        call a%array%save(comm, path_of('matrix.npy'), stat=code, errmsg=text)
        call expect(code == datamover_io, 'a file that is there: '//text)
        call a%array%save(comm, path_of('matrix.npy'), overwrite=.true.)
        call a%array%save(comm, path_of('matrix.dat'))
        call a%array%save(comm, path_of('matrix.data'), format='npy', max_bytes=2000_int64)
        call free_matrix(a)
    end subroutine

    subroutine load_matrix()
        type(matrix), target, asynchronous :: a, b
        call make_matrix(a, '(*, cyclic)')
        call a%array%load(comm, path_of('matrix.npy'))
        call expect_matrix(a, 0d0, 'what was saved')
        a%memory = untouched
        call a%array%load(comm, path_of('matrix.data'), format='npy', ranks=[nprocs - 1])
        call expect_matrix(a, 0d0, 'what one process reads')
        call make_matrix(b, '(block, *)')
        call b%array%load(comm, path_of('given.npy'), max_bytes=2000_int64)
        call expect_matrix(b, 0.25d0, 'what NumPy saved')
        call free_matrix(a)
        call free_matrix(b)
    end subroutine

    ! Each process has as many blocks as the layout gives it, with ghosts.
    subroutine make_field(grid, layout, array, blocks)
        integer, intent(in) :: grid(3)
        type(datamover_layout), intent(inout) :: layout
        type(datamover_array), intent(inout) :: array
        type(field_block), allocatable, intent(out), target, asynchronous :: blocks(:)
        integer, allocatable :: mine(:)
        integer(int32), target :: nothing(0, 0, 0)
        integer :: b
        call layout%create_uniform(field_lo, field_hi, grid, nprocs)
        call layout%blocks_of(rank, mine)
        allocate (blocks(size(mine)))
        do b = 1, size(mine)
            call layout%block_region(mine(b), blocks(b)%lo, blocks(b)%hi)
            associate (lo => blocks(b)%lo, hi => blocks(b)%hi)
                allocate (blocks(b)%memory(lo(1):hi(1), lo(2):hi(2), lo(3) - 1:hi(3) + 1), &
                    source=untouched)
            end associate
            call array%attach(layout, datamover_memory(blocks(b)%memory), mine(b), &
                ghost_lower=[0, 0, 1], ghost_upper=[0, 0, 1])
        end do
        if (size(mine) == 0) call array%attach(layout, datamover_memory(nothing), 0)
    end subroutine

    pure integer function point_of(i, j, k)
        integer, intent(in) :: i, j, k
        point_of = 10000 * i + 100 * j + k
    end function

    subroutine save_field()
        type(datamover_layout) :: layout
        type(datamover_array) :: array
        type(field_block), allocatable, target, asynchronous :: blocks(:)
        integer :: b, i, j, k
        call make_field([2, 1, 2], layout, array, blocks)
        do b = 1, size(blocks)
            do k = blocks(b)%lo(3), blocks(b)%hi(3)
                do j = blocks(b)%lo(2), blocks(b)%hi(2)
                    do i = blocks(b)%lo(1), blocks(b)%hi(1)
                        blocks(b)%memory(i, j, k) = point_of(i, j, k)
                    end do
                end do
            end do
        end do
        call array%save(comm, path_of('field'), format='raw', ranks=[0])
        call array%detach()
        call layout%free()
    end subroutine

    subroutine load_field()
        type(datamover_layout) :: layout
        type(datamover_array) :: array
        type(field_block), allocatable, target, asynchronous :: blocks(:)
        integer :: b, i, j, k
        call make_field([1, 3, 1], layout, array, blocks)
        call array%load(comm, path_of('field'), format='raw')
        do b = 1, size(blocks)
            do k = blocks(b)%lo(3), blocks(b)%hi(3)
                do j = blocks(b)%lo(2), blocks(b)%hi(2)
                    do i = blocks(b)%lo(1), blocks(b)%hi(1)
                        call expect(blocks(b)%memory(i, j, k) == point_of(i, j, k), 'a point')
                    end do
                end do
            end do
            associate (lo => blocks(b)%lo, hi => blocks(b)%hi)
                call expect(all(blocks(b)%memory(:, :, lo(3) - 1) == untouched) .and. &
                    all(blocks(b)%memory(:, :, hi(3) + 1) == untouched), 'ghosts')
            end associate
        end do
        call array%detach()
        call layout%free()
    end subroutine

    ! Complex numbers of which the last process has none.
    subroutine make_line(layout, array, z)
        type(datamover_layout), intent(inout) :: layout
        type(datamover_array), intent(inout) :: array
        complex(real32), allocatable, intent(out), target, asynchronous :: z(:)
        integer, allocatable :: extents(:)
        call layout%create_block_cyclic([max(1, nprocs - 1)], '(cyclic)', nprocs)
        call layout%local_shape(rank, extents)
        allocate (z(extents(1)), source=(-1.0, -1.0))
        call array%attach(layout, datamover_memory(z), my_block(layout))
    end subroutine

    subroutine save_line()
        type(datamover_layout) :: layout
        type(datamover_array) :: array
        complex(real32), allocatable, target, asynchronous :: z(:)
        call make_line(layout, array, z)
        z = cmplx(rank, -0.5)
        call array%save(comm, path_of('line.npy'))
        call array%detach()
        call layout%free()
    end subroutine

    ! As many numbers as there are processes now, from a longer or shorter file.
    subroutine load_line()
        type(datamover_layout) :: layout
        type(datamover_array) :: array
        complex(real32), allocatable, target, asynchronous :: z(:)
        integer :: code
        call make_line(layout, array, z)
        call array%load(comm, path_of('line.npy'), stat=code)
        if (code == datamover_success) then
            call expect(all(z == cmplx(rank, -0.5)), 'complex numbers')
        else
            call expect(code == datamover_mismatch, 'a line of another length')
            call expect(all(z == (-1.0, -1.0)), 'nothing is read')
        end if
        call array%detach()
        call layout%free()
    end subroutine

    ! As Fortran writes a matrix by itself.
    subroutine write_alone()
        integer :: a(rows, columns), unit, i, j
        a = reshape([((1000 * i + j, i=1, rows), j=1, columns)], shape(a))
        open (newunit=unit, file=path_of('alone.dat'), access='stream', action='write')
        write (unit) a
        close (unit)
    end subroutine

    ! Its dimensions are in the opposite order.
    subroutine load_what_was_written()
        type(datamover_layout) :: layout
        type(datamover_array) :: array
        integer, allocatable, target, asynchronous :: b(:, :)
        integer, allocatable :: extents(:)
        integer(int64), allocatable :: global(:)
        integer :: i, j
        call layout%create_block_cyclic([columns, rows], '(block, *)', nprocs)
        call layout%local_shape(rank, extents)
        allocate (b(extents(1), extents(2)), source=untouched)
        call array%attach(layout, datamover_memory(b), my_block(layout))
        call array%load(comm, path_of('alone.dat'))
        do j = 1, extents(2)
            do i = 1, extents(1)
                call layout%global_index(rank, [i, j], global)
                call expect(b(i, j) == 1000 * global(2) + global(1), 'what was written alone')
            end do
        end do
        call array%detach()
        call layout%free()
    end subroutine

    subroutine refusals_of_save()
        type(matrix), target, asynchronous :: a
        type(datamover_array) :: nothing
        integer :: nobody(0), code
        character(300) :: text
        call make_matrix(a, '(block, *)')
        if (is_last()) then
            call nothing%save(comm, path_of('no.npy'), stat=code, errmsg=text)
        else
            call a%array%save(comm, path_of('no.npy'), stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_state .and. index(text, 'nothing is attached') > 0, &
            'nothing to save: '//text)
        if (is_last()) then
            call a%array%save(comm, path_of('no.npy'), format='zarr', stat=code, errmsg=text)
        else
            call a%array%save(comm, path_of('no.npy'), stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_argument .and. index(text, "'zarr'") > 0, &
            'a format: '//text)
        call a%array%save(comm, path_of('no.npy'), ranks=[nprocs], stat=code)
        call expect(code == datamover_out_of_range, 'no such rank')
        call a%array%save(comm, path_of('no.npy'), ranks=nobody, stat=code)
        call expect(code == datamover_invalid_argument, 'nobody writes')
        call a%array%save(comm, path_of('no.npy'), max_bytes=-1_int64, stat=code)
        call expect(code == datamover_invalid_argument, 'less than no memory')
        call a%array%save(comm, path_of('no/such.npy'), stat=code)
        call expect(code == datamover_io, 'no directory')
        call a%array%save(comm, path_of('no.name'), stat=code)
        call expect(code == datamover_invalid_argument, 'a name that says no format')
        call free_matrix(a)
    end subroutine

    subroutine refusals_of_load()
        type(matrix), target, asynchronous :: a
        type(datamover_layout) :: layout
        type(datamover_array) :: whole_numbers, longer
        integer, allocatable, target :: counts(:, :)
        real(real64), allocatable, target :: memory(:, :)
        integer, allocatable :: extents(:)
        integer :: code
        character(300) :: text
        call make_matrix(a, '(block, *)')
        call a%array%load(comm, path_of('no.npy'), stat=code)
        call expect(code == datamover_io, 'no file')
        allocate (counts(a%extents(1), a%extents(2)), source=untouched)
        call whole_numbers%attach(a%layout, datamover_memory(counts), my_block(a%layout))
        call whole_numbers%load(comm, path_of('matrix.npy'), stat=code)
        call expect(code == datamover_wrong_type .and. all(counts == untouched), 'reals')
        call whole_numbers%load(comm, path_of('matrix.dat'), stat=code)
        call expect(code == datamover_io .and. all(counts == untouched), 'bytes left over')
        call layout%create_block_cyclic([rows + 1, columns], '(block, *)', nprocs)
        call layout%local_shape(rank, extents)
        allocate (memory(extents(1), extents(2)))
        call longer%attach(layout, datamover_memory(memory), my_block(layout))
        call longer%load(comm, path_of('matrix.npy'), stat=code, errmsg=text)
        call expect(code == datamover_mismatch, 'another shape: '//text)
        call whole_numbers%detach()
        call longer%detach()
        call layout%free()
        call free_matrix(a)
    end subroutine

end program
