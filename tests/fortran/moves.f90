! SPDX-License-Identifier: BSD-3-Clause
! Moves in Fortran: elements arrive at the right places, also in place, and errors are raised on all
! processes.
program moves
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
    use datamover
    use expectations
    implicit none

    call begin_test()
    if (command_argument_count() > 0) call typo()
    call every_second_row()
    call layout_freed_after_attach()
    call transposed()
    call sections_of_any_type()
    call a_window_that_moves()
    call sums()
    call halo_of_field()
    call lower_bounds()
    call copies_of_blocks()
    call regions_of_blocks()
    call several_arrays()
    call records()
    call refusals()
    call end_test()

contains

    ! Stops the program.
    subroutine typo()
        type(datamover_layout) :: layout
        call layout%create_block_cyclic([4], '(blok)', nprocs)
    end subroutine

    ! A number for each element of the whole array.
    pure integer function number_at(i, j)
        integer, intent(in) :: i, j
        number_at = 1000 * i + j
    end function

    ! Global index of a rank's local element.
    function index_of(layout, local) result(global)
        type(datamover_layout), intent(in) :: layout
        integer, intent(in) :: local(:)
        integer(int64), allocatable :: global(:)
        call layout%global_index(rank, local, global)
    end function

    ! The block of this process, in a layout that gives each one at most; 0: none.
    integer function my_block(layout)
        type(datamover_layout), intent(in) :: layout
        integer, allocatable :: blocks(:)
        call layout%blocks_of(rank, blocks)
        my_block = 0
        if (size(blocks) > 0) my_block = blocks(1)
    end function

    ! Where blocks begin and end: with any lower bounds, and of block-cyclic layouts.
    subroutine regions_of_blocks()
        type(datamover_layout) :: boxes, rows, dealt
        integer, allocatable :: lo(:), hi(:)
        integer :: code
        call boxes%create_uniform([-3, 2], [4, 11], [2, 3], nprocs)
        call boxes%block_region(6, lo, hi)
        call expect(all(lo == [1, 9]) .and. all(hi == [4, 11]), 'the last of six blocks')
        call boxes%block_region(7, lo, hi, stat=code)
        call expect(code == datamover_out_of_range, 'there are six')
        call rows%create_block_cyclic([nprocs, 5], '(block, *)', nprocs)
        call rows%block_region(rank + 1, lo, hi)
        call expect(all(lo == [rank + 1, 1]) .and. all(hi == [rank + 1, 5]), 'one row each')
        call dealt%create_block_cyclic([4*nprocs], '(cyclic)', nprocs)
        call dealt%block_region(1, lo, hi, stat=code)
        call expect((code == datamover_unsupported) .eqv. (nprocs > 1), 'blocks that are no boxes')
        call boxes%free()
        call rows%free()
        call dealt%free()
    end subroutine

    ! Strided memory on both sides, across start and wait: what lies between stays.
    subroutine every_second_row()
        type(datamover_layout) :: rows, tiles
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        real(real64), allocatable, asynchronous :: a(:, :), b(:, :)
        integer, allocatable :: mine(:), theirs(:)
        integer(int64), allocatable :: global(:)
        logical :: done
        integer :: i, j, round
        call rows%create_block_cyclic([13, 7], '(block, *)', nprocs)
        call tiles%create_block_cyclic([13_int64, 7_int64], '(cyclic(2), cyclic(3))', nprocs)
        call rows%local_shape(rank, mine)
        call tiles%local_shape(rank, theirs)
        allocate (a(2 * mine(1), mine(2)), source=-1d0)
        allocate (b(theirs(1), 3 * theirs(2)), source=-2d0)
        call from%attach(rows, datamover_memory(a(::2, :)), my_block(rows))
        ! Backwards, too: the last column of memory is the first of the block.
        call to%attach(tiles, datamover_memory(b(:, size(b, 2):1:-3)), my_block(tiles))
        call plan%redistribute(rows, tiles)
        call mover%create(comm, plan, from, to)
        do round = 1, 2
            do j = 1, mine(2)
                do i = 1, mine(1)
                    global = index_of(rows, [i, j])
                    a(2 * i - 1, j) = round * number_at(int(global(1)), int(global(2)))
                end do
            end do
            call mover%start()
            done = .false.
            if (round == 1) then
                call mover%wait()
            else
                do while (.not. done)
                    call mover%test(done)
                end do
            end if
            do j = 1, theirs(2)
                do i = 1, theirs(1)
                    global = index_of(tiles, [i, j])
                    call expect(b(i, size(b, 2) - 3 * (j - 1)) == &
                        round * number_at(int(global(1)), int(global(2))), 'a tile')
                end do
            end do
        end do
        call expect(all(a(2::2, :) == -1), 'between the rows')
        do j = 1, theirs(2)
            call expect(all(b(:, 3 * j - 2:3 * j - 1) == -2), 'between the columns')
        end do
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call rows%free()
        call tiles%free()
    end subroutine

    ! What is attached outlives the handle of its layout; another layout is made where that was.
    subroutine layout_freed_after_attach()
        type(datamover_layout) :: line, other
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        integer, asynchronous :: a(3), b(3)
        integer :: code
        a = 100 * rank + [1, 2, 3]
        b = 0
        call line%create_block_cyclic([3*nprocs], '(block)', nprocs)
        call plan%redistribute(line, line)
        call from%attach(line, datamover_memory(a), rank + 1)
        call to%attach(line, datamover_memory(b), rank + 1)
        call line%free()
        call other%create_block_cyclic([2, 5*nprocs], '(*, block)', nprocs)
        call mover%create(comm, plan, from, to, stat=code)
        call expect(code == datamover_success, 'a layout that was freed after attach')
        call mover%start()
        call mover%wait()
        call expect(all(b == a), 'the elements of its blocks')
        call from%attach(other, datamover_memory(a), rank + 1, stat=code)
        call expect(code == datamover_mismatch, 'a block of another layout')
        call line%create_block_cyclic([3*nprocs], '(block)', nprocs)
        call from%detach()
        call from%attach(line, datamover_memory(a), 0)
        call other%free()
        call other%create_block_cyclic([3*nprocs], '(block)', nprocs)
        call from%attach(other, datamover_memory(a), rank + 1, stat=code)
        call expect(code == datamover_success, 'a block of an equal layout')
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call line%free()
        call other%free()
    end subroutine

    subroutine transposed()
        type(datamover_layout) :: rows, columns
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        integer, allocatable, target :: a(:, :), b(:, :)
        integer, allocatable :: mine(:), theirs(:)
        integer(int64), allocatable :: global(:)
        integer :: i, j
        call rows%create_block_cyclic([9, 5], '(block, *)', nprocs)
        call columns%create_block_cyclic([5, 9], '(*, cyclic)', nprocs)
        call rows%local_shape(rank, mine)
        call columns%local_shape(rank, theirs)
        allocate (a(mine(1), mine(2)), b(theirs(1), theirs(2)))
        b = -1
        do j = 1, mine(2)
            do i = 1, mine(1)
                global = index_of(rows, [i, j])
                a(i, j) = number_at(int(global(1)), int(global(2)))
            end do
        end do
        call from%attach(rows, datamover_memory(a), my_block(rows))
        call to%attach(columns, datamover_memory(b), my_block(columns))
        call plan%redistribute(rows, columns, axes=[2, 1])
        call mover%create(comm, plan, from, to, check=.true.)
        call mover%run()
        do j = 1, theirs(2)
            do i = 1, theirs(1)
                global = index_of(columns, [i, j])
                call expect(b(i, j) == number_at(int(global(2)), int(global(1))), 'transposed')
            end do
        end do
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call rows%free()
        call columns%free()
    end subroutine

    ! a(3:6, 2) goes to b(2:5, 4) of arrays with one element per column on each process.
    subroutine sections_of_any_type()
        integer(int8), target :: i1(6, 1), j1(6, 1)
        integer(int16), target :: i2(6, 1), j2(6, 1)
        integer(int64), target :: i8(6, 1), j8(6, 1)
        real(real32), target :: r4(6, 1), s4(6, 1)
        complex(real32), target :: c4(6, 1), d4(6, 1)
        complex(real64), target :: c8(6, 1), d8(6, 1)
        logical, target :: l(6, 1), m(6, 1)
        character(3), target :: t(6, 1), u(6, 1)
        integer :: i
        i1(:, 1) = [(int(i, int8), i=1, 6)]
        i2 = i1
        i8 = i1
        r4 = i1
        c4 = cmplx(i1, -i1)
        c8 = cmplx(i1, -i1, real64)
        l = mod(i1, 2_int8) == 0
        t(:, 1) = ['abc', 'def', 'ghi', 'jkl', 'mno', 'pqr']
        j1 = 0; j2 = 0; j8 = 0; s4 = 0; d4 = 0; d8 = 0; m = .false.; u = '...'
        call move_section(i1, j1)
        call move_section(i2, j2)
        call move_section(i8, j8)
        call move_section(r4, s4)
        call move_section(c4, d4)
        call move_section(c8, d8)
        call move_section(l, m)
        call move_section(t, u)
        if (rank == nprocs - 1) then
            call expect(all(j1(:, 1) == [0, 3, 4, 5, 6, 0]), 'int8')
            call expect(all(j2(:, 1) == [0, 3, 4, 5, 6, 0]), 'int16')
            call expect(all(j8(:, 1) == [0, 3, 4, 5, 6, 0]), 'int64')
            call expect(all(s4(:, 1) == [0, 3, 4, 5, 6, 0]), 'real32')
            call expect(all(d4(2:5, 1) == c4(3:6, 1)) .and. d4(1, 1) == 0, 'complex32')
            call expect(all(d8(2:5, 1) == c8(3:6, 1)) .and. d8(6, 1) == 0, 'complex64')
            call expect(all(m(:, 1) .eqv. [.false., .false., .true., .false., .true., .false.]), &
                'logical')
            call expect(all(u(:, 1) == ['...', 'ghi', 'jkl', 'mno', 'pqr', '...']), 'character')
        else
            call expect(all(j1 == 0) .and. all(s4 == 0) .and. all(u == '...'), 'not sent here')
        end if
    end subroutine

    ! From the first process to the last.
    subroutine move_section(a, b)
        type(*), dimension(..), asynchronous :: a, b
        type(datamover_layout) :: columns
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        call columns%create_block_cyclic([6, int(nprocs)], '(*, block)', nprocs)
        call from%attach(columns, datamover_memory(a), my_block(columns))
        call to%attach(columns, datamover_memory(b), my_block(columns))
        call plan%redistribute(columns, columns, [3, 1], [6, 1], [2, int(nprocs)], &
            [5, int(nprocs)])
        call mover%create(comm, plan, from, to)
        call mover%run()
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call columns%free()
    end subroutine

    ! Each process has two places of a line, which moves up by one.
    subroutine a_window_that_moves()
        type(datamover_layout) :: before, after
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        integer, target :: a(2), b(2)
        integer :: lo(1, nprocs), owners(nprocs), p, first, last, code
        character(200) :: text
        do p = 1, nprocs
            lo(1, p) = 2 * p - 5
            owners(p) = p - 1
        end do
        first = lo(1, rank + 1)
        last = lo(1, nprocs) + 1
        call before%create_floor_plan(lo, lo + 1, owners, nprocs)
        call after%create_floor_plan(lo + 1, lo + 2, owners, nprocs)
        a = [first, first + 1]
        b = 77
        call from%attach(before, datamover_memory(a), rank + 1)
        call to%attach(after, datamover_memory(b), rank + 1)
        call plan%redistribute(before, after, stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, 'of the source') > 0, 'not held')
        call plan%redistribute(before, after, partial=.false., stat=code)
        call expect(code == datamover_mismatch, 'not partial')
        call plan%redistribute(before, after, partial=.true.)
        call mover%create(comm, plan, from, to)
        call mover%run()
        call expect(all(b == [first + 1, merge(77, first + 2, first + 1 == last)]), 'same indices')
        call mover%free()
        call plan%redistribute(before, after, [lo(1, 1)], [last], [lo(1, 1) + 1], [last + 1], &
            partial=.true.)
        call mover%create(comm, plan, from, to)
        call mover%run()
        call expect(all(b == a), 'sections by offset')
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call before%free()
        call after%free()
    end subroutine

    ! The type is known to the library: what arrives can be added, and converted.
    subroutine sums()
        type(datamover_layout) :: layout
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        integer(int32), target :: a(4)
        real(real32), target :: b(4)
        integer :: i
        call layout%create_block_cyclic([4 * int(nprocs)], '(block)', nprocs)
        a = [(4 * rank + i, i=1, 4)]
        b = 0.5
        call from%attach(layout, datamover_memory(a), my_block(layout))
        call to%attach(layout, datamover_memory(b), my_block(layout))
        call plan%redistribute(layout, layout)
        call mover%create(comm, plan, from, to, op='add')
        call mover%run()
        call mover%run()
        call expect(all(b == 2 * a + 0.5), 'added')
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call layout%free()
    end subroutine

    subroutine halo_of_field()
        type(datamover_layout) :: slabs
        type(datamover_plan) :: plan
        type(datamover_array) :: field
        type(datamover_mover) :: mover
        integer, parameter :: n = 4
        real(real64), allocatable, asynchronous :: u(:, :, :)
        integer :: i, j, k, length
        length = 3 * nprocs
        call slabs%create_uniform([1, 1, 1], [n, n, length], [1, 1, int(nprocs)], nprocs)
        allocate (u(0:n + 1, 0:n + 1, 0:4), source=-1d0)
        do k = 1, 3
            do j = 1, n
                do i = 1, n
                    u(i, j, k) = value_at(i, j, 3 * rank + k, n, length)
                end do
            end do
        end do
        call plan%halo(slabs, [1, 1, 1], [1, 1, 1], periodic_lo=[1, 1, 1], &
            periodic_hi=[n, n, length])
        call field%attach(slabs, datamover_memory(u), rank + 1, ghost_lower=[1, 1, 1], ghost_upper=[1, 1, 1])
        call mover%create(comm, plan, field, field)
        call mover%start()
        call mover%wait()
        do k = 0, 4
            do j = 0, n + 1
                do i = 0, n + 1
                    call expect(u(i, j, k) == value_at(i, j, 3 * rank + k, n, length), 'a ghost')
                end do
            end do
        end do
        call mover%free()
        call field%detach()
        call plan%free()
        call slabs%free()
    end subroutine

    pure real(real64) function value_at(i, j, k, n, length)
        integer, intent(in) :: i, j, k, n, length
        value_at = modulo(i - 1, n) + 10 * modulo(j - 1, n) + 100 * modulo(k - 1, length)
    end function

    ! Blocks whose indices start anywhere; ghosts of one side only, without corners.
    subroutine lower_bounds()
        type(datamover_layout) :: line, turned
        type(datamover_plan) :: plan
        type(datamover_array) :: part
        type(datamover_mover) :: mover
        integer, allocatable, target :: a(:)
        integer :: lo(1, nprocs), hi(1, nprocs), owners(nprocs), p, first, owner, code
        do p = 1, nprocs
            lo(1, p) = -7 + 2 * (p - 1)
            hi(1, p) = lo(1, p) + 1
            owners(p) = p - 1
        end do
        call line%create_floor_plan(lo, hi, owners, nprocs)
        first = lo(1, rank + 1)
        allocate (a(first - 1:first + 1))
        a(first - 1) = 99
        a(first:) = [first, first + 1]
        call plan%halo(line, [1], [0])
        call part%attach(line, datamover_memory(a), rank + 1, ghost_lower=[1], ghost_upper=[0])
        call mover%create(comm, plan, part, part)
        call mover%run()
        call expect(a(first - 1) == merge(99, first - 1, rank == 0), 'the ghost below')
        call turned%with_owners(line, owners(nprocs:1:-1), nprocs)
        call turned%owner(1, owner)
        call expect(owner == nprocs - 1, 'another owner')
        call turned%with_owners(line, owners(2:), nprocs, stat=code)
        call expect(code == datamover_mismatch, 'an owner too few')
        call turned%free()
        call mover%free()
        call part%detach()
        call plan%free()
        call line%free()
    end subroutine

    ! Each process's last two elements to the front of the next one's; and back again.
    subroutine copies_of_blocks()
        type(datamover_layout) :: line
        type(datamover_plan) :: plan, other, both, back
        type(datamover_array) :: from, to
        type(datamover_mover) :: mover
        integer(int64) :: blocks
        integer, target :: a(5), b(5)
        integer :: p, next, rank_of_last, before, unit, code
        character(40) :: path
        call line%create_block_cyclic([5 * int(nprocs)], '(block)', nprocs)
        call line%num_blocks(blocks)
        call expect(blocks == nprocs, 'the number of blocks')
        call line%owner(int(blocks), rank_of_last)
        call expect(rank_of_last == nprocs - 1, 'the owner of the last block')
        call plan%create(line, line)
        call other%create(line, line)
        do p = 1, nprocs
            next = mod(p, int(nprocs)) + 1
            call plan%add_section(p, [5 * p - 1], [5 * p - 1], next, [5 * next - 4], [5 * next - 4])
            call other%add_section(p, [5 * p], [5 * p], next, [5 * next - 3], [5 * next - 3])
        end do
        call both%merge(plan, other)
        call back%reverse(both)
        a = [(10 * rank + p, p=1, 5)]
        b = -1
        call from%attach(line, datamover_memory(a), rank + 1)
        call to%attach(line, datamover_memory(b), rank + 1)
        call mover%create(comm, both, from, to)
        call mover%run()
        before = modulo(rank - 1, nprocs)
        call expect(all(b == [10 * before + 4, 10 * before + 5, -1, -1, -1]), 'copied')
        call mover%free()
        b = -b
        call mover%create(comm, back, to, from)
        call mover%run()
        call expect(all(a(4:) == -[10 * rank + 4, 10 * rank + 5]), 'copied back')
        call mover%free()

        ! There and back as one plan, kept in a file; the way back as the adjoint.
        call back%adjoint(both)
        call other%compose(both, back)
        write (path, '(a, i0, a, i0, a)') 'moves-', nprocs, '-', rank, '.plan'
        call other%save(path)
        call plan%load(path)
        open (newunit=unit, file=path)
        close (unit, status='delete')
        b = 0
        call mover%create(comm, plan, from, to)
        call mover%run()
        call expect(all(b == [0, 0, 0, a(4:)]), 'there and back')
        call mover%free()
        call plan%load(path, stat=code)
        call expect(code == datamover_io, 'a plan that is not there')
        call from%detach()
        call to%detach()
        call plan%free()
        call other%free()
        call both%free()
        call back%free()
        call line%free()
    end subroutine

    subroutine several_arrays()
        type(datamover_layout) :: block, cyclic
        type(datamover_plan) :: plan
        type(datamover_array) :: from(2), to(2)
        type(datamover_mover) :: mover
        integer, allocatable :: mine(:), theirs(:)
        integer, allocatable, target :: a(:), b(:)
        real(real64), allocatable, target :: x(:), y(:)
        integer(int64), allocatable :: global(:)
        integer :: i
        call block%create_block_cyclic([11], '(block)', nprocs)
        call cyclic%create_block_cyclic([11], '(cyclic)', nprocs)
        call block%local_shape(rank, mine)
        call cyclic%local_shape(rank, theirs)
        allocate (a(mine(1)), x(mine(1)), b(theirs(1)), y(theirs(1)))
        do i = 1, mine(1)
            global = index_of(block, [i])
            a(i) = int(global(1))
            x(i) = 0.5d0 * global(1)
        end do
        call from(1)%attach(block, datamover_memory(a), my_block(block))
        call from(2)%attach(block, datamover_memory(x), my_block(block))
        call to(1)%attach(cyclic, datamover_memory(b), my_block(cyclic))
        call to(2)%attach(cyclic, datamover_memory(y), my_block(cyclic))
        call plan%redistribute(block, cyclic)
        call mover%create(comm, plan, from, to)
        call mover%run()
        do i = 1, theirs(1)
            global = index_of(cyclic, [i])
            call expect(b(i) == global(1) .and. y(i) == 0.5d0 * global(1), 'one of two arrays')
        end do
        call mover%free()
        do i = 1, 2
            call from(i)%detach()
            call to(i)%detach()
        end do
        call plan%free()
        call block%free()
        call cyclic%free()
    end subroutine

    ! A component of an array of records is strided memory of its own type.
    subroutine records()
        type :: particle
            integer :: id = -1
            real(real64) :: mass = -1
        end type
        type(datamover_layout) :: layout
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to, whole, copied
        type(datamover_mover) :: mover
        type(particle), target :: p(3), q(3)
        real(real64), target :: masses(3)
        call layout%create_block_cyclic([3 * int(nprocs)], '(block)', nprocs)
        call plan%redistribute(layout, layout)
        masses = [1, 2, 3] + rank
        call from%attach(layout, datamover_memory(masses), my_block(layout))
        call to%attach(layout, datamover_memory(p%mass), my_block(layout))
        call mover%create(comm, plan, from, to)
        call mover%run()
        call expect(all(p%mass == masses) .and. all(p%id == -1), 'a component')
        call mover%free()
        p%id = rank
        call whole%attach(layout, datamover_memory(p), my_block(layout))
        call copied%attach(layout, datamover_memory(q), my_block(layout))
        call mover%create(comm, plan, whole, copied)
        call mover%run()
        call expect(all(q%mass == masses) .and. all(q%id == rank), 'whole records')
        call mover%free()
        call from%detach()
        call to%detach()
        call whole%detach()
        call copied%detach()
        call plan%free()
        call layout%free()
    end subroutine

    subroutine refusals()
        type(datamover_layout) :: layout, never
        type(datamover_plan) :: plan
        type(datamover_array) :: from, to, nothing
        type(datamover_mover) :: mover
        integer, target :: a(4), b(5)
        integer, allocatable, target :: not_there(:)
        integer, allocatable :: extents(:)
        integer(int64) :: told
        integer :: code
        character(200) :: text
        call never%create_block_cyclic([4], '(blok)', nprocs, stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'blok') > 0, 'a typo')
        call never%create_block_cyclic([4.0], '(block)', nprocs, stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'integers') > 0, 'reals')
        call never%create_uniform([1, 1], [4], [1, 1], nprocs, stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, 'hi') > 0, 'one bound')
        call never%create_uniform([-huge(1_int64) - 1], [4_int64], [1], nprocs, stat=code, errmsg=text)
        call expect(code == datamover_out_of_range, 'the least number')
        call plan%redistribute(never, never, stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument, 'a layout that was not made')
        call never%local_shape(0, extents, stat=code)
        call expect(code == datamover_invalid_argument .and. size(extents) == 0, 'no extents of none')
        call never%block_extents(1, extents, stat=code)
        call expect(code == datamover_invalid_argument .and. size(extents) == 0, 'no block of none')
        call never%blocks_of(0, extents, stat=code)
        call expect(code == datamover_invalid_argument .and. size(extents) == 0, 'no blocks of none')
        call never%num_blocks(told, stat=code)
        call expect(code == datamover_invalid_argument .and. told == 0, 'none has no blocks')
        call layout%create_block_cyclic([4 * int(nprocs)], '(block)', nprocs, stat=code)
        call expect(code == datamover_success, 'a good layout')
        call plan%redistribute(layout, layout, [1], stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument, 'half a section')
        call plan%redistribute(layout, layout, axes=[1, 2], stat=code)
        call expect(code == datamover_mismatch, 'too many axes')
        call plan%redistribute(layout, layout)
        call from%attach(layout, datamover_memory(a), rank + 1)
        call to%attach(layout, datamover_memory(b), rank + 1, stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, 'extent 5') > 0, 'one too many')
        call to%attach(layout, datamover_memory(reshape(a, [2, 2])), rank + 1, stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, '2 dimensions') > 0, 'a matrix')
        call to%attach(layout, datamover_memory(not_there), rank + 1, stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'not allocated') > 0, &
                    'not allocated')
        call to%attach(layout, datamover_memory(a), int(nprocs) + 1, stat=code)
        call expect(code == datamover_out_of_range, 'a block that is not there')
        ! The last process brings nothing: all are told.
        if (rank < nprocs - 1) then
            call to%attach(layout, datamover_memory(b(:4)), rank + 1)
            call mover%create(comm, plan, from, to, stat=code, errmsg=text)
        else
            call mover%create(comm, plan, from, nothing, stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_state .and. index(text, 'attached') > 0, &
            'one without an array: '//text)
        call mover%start(stat=code)
        call expect(code == datamover_invalid_argument, 'a mover that was not bound')
        if (rank == nprocs - 1) call to%attach(layout, datamover_memory(b(:4)), rank + 1)
        call mover%create(comm, plan, from, to, op='divide', stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'divide') > 0, 'an op')
        if (nprocs > 1) then
            call mover%create(comm, plan, from, to, op=trim(merge('add    ', 'replace', rank == 0)), &
                stat=code, errmsg=text)
            call expect(code == datamover_mismatch .and. &
                index(text, 'op="add" on process 0, op="replace" on process 1') > 0, text)
        end if
        call mover%create(comm, plan, from, to)
        call mover%create(comm, plan, from, to, stat=code)
        call expect(code == datamover_invalid_state, 'bound twice')
        b = 0
        a = [1, 2, 3, 4]
        call mover%run(stat=code)
        call expect(code == 0 .and. all(b == [1, 2, 3, 4, 0]), 'after all errors')
        call mover%wait(stat=code)
        call expect(code == datamover_invalid_state, 'waited for nothing')
        call mover%free()
        call from%detach()
        call to%detach()
        call plan%free()
        call layout%free()
    end subroutine

end program
