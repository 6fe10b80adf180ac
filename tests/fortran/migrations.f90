! SPDX-License-Identifier: BSD-3-Clause
! Distributions in Fortran: every element is sent to the process that is named for it, and back.
program migrations
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64, real64
    use datamover
    use expectations
    implicit none

    type :: particle
        integer(int64) :: id = -1
        integer :: target = -1
        real(real64) :: mass = 0
    end type

    character(9), parameter :: methods(4) = ['partition', 'alltoallv', 'sendrecv ', 'sort     ']
    integer :: m

    call begin_test()
    call columns_while_computing()
    do m = 1, size(methods)
        call records(methods(m))
    end do
    call several_ranks()
    call integer_keys()
    call positions()
    call map_refusals()
    call refusals()
    call end_test()

contains

    ! What process p gives, which every process can tell: so many elements, each with a rank (-1:
    ! dropped) and a number of its own.
    pure integer function elems_of(p)
        integer, intent(in) :: p
        elems_of = mod(37 * p + 11, 23)
    end function

    pure integer function target_of(p, i)
        integer, intent(in) :: p, i
        target_of = mod(i * i + 5 * i + 3 * p, int(nprocs) + 1) - 1
    end function

    pure integer function id_of(p, i)
        integer, intent(in) :: p, i
        id_of = 1000 * p + i
    end function

    ! The numbers of the elements that arrive here, in stable order.
    function arriving() result(ids)
        integer, allocatable :: ids(:)
        integer :: p, i
        allocate (ids(0))
        do p = 0, nprocs - 1
            do i = 1, elems_of(p)
                if (target_of(p, i) == rank) ids = [ids, id_of(p, i)]
            end do
        end do
    end function

    ! Columns of several types, with gaps, one of them of three numbers per element; then what was
    ! made of them goes home.
    subroutine columns_while_computing()
        type(datamover_migration) :: d
        real(real64), allocatable, asynchronous :: x(:, :), y(:, :), home(:, :)
        integer, allocatable, asynchronous :: ids(:), got(:)
        character(5), allocatable, asynchronous :: names(:), told(:)
        integer(int64), allocatable, target :: ranks(:)
        integer, allocatable :: right(:)
        integer(int64) :: count
        integer :: i, n, round
        logical :: done
        n = elems_of(rank)
        right = arriving()
        ranks = [(int(target_of(rank, i), int64), i=1, n)]
        call d%create(comm, datamover_memory(ranks))
        call d%received(count)
        call expect(count == size(right), 'how many arrive')
        allocate (x(3, 2 * n), source=-1d0)
        allocate (ids(n), names(n), home(3, n))
        do i = 1, n
            ids(i) = id_of(rank, i)
            write (names(n + 1 - i), '(i5)') ids(i)
            x(:, 2 * i) = ids(i) + [0.25d0, 0.5d0, 0.75d0]
        end do
        allocate (y(3, count), got(count), told(count))
        do round = 1, 2
            y = 0
            got = 0
            told = '?'
            ! Every second column of x; names lie backwards.
            call d%start([datamover_memory(x(:, 2::2)), datamover_memory(ids), &
                datamover_memory(names(n:1:-1))], &
                [datamover_memory(y), datamover_memory(got), datamover_memory(told)])
            done = .false.
            if (round == 1) then
                call d%wait()
            else
                do while (.not. done)
                    call d%test(done)
                end do
            end if
            call expect(all(got == right), 'numbers')
            do i = 1, int(count)
                call expect(all(y(:, i) == right(i) + [0.25d0, 0.5d0, 0.75d0]), 'three numbers')
                read (told(i), *) m
                call expect(m == right(i), 'a name')
            end do
        end do
        home = -1
        y = 2 * y
        call d%reverse(datamover_memory(y), datamover_memory(home))
        do i = 1, n
            if (target_of(rank, i) < 0) then
                call expect(all(home(:, i) == 0), 'dropped')
            else
                call expect(all(home(:, i) == 2 * x(:, 2 * i)), 'home')
            end if
        end do
        call d%free()
    end subroutine

    ! The rank is a component, and so is what moves; whole records move, too. Of an allocatable array
    ! it is p(:)%mass: with p%mass gfortran 12 gives p itself the address of the component.
    subroutine records(method)
        character(*), intent(in) :: method
        type(datamover_migration) :: d
        type(particle), allocatable, target :: p(:), q(:)
        real(real64), allocatable, target :: mass(:)
        integer, allocatable :: right(:)
        integer(int64) :: count
        integer :: i
        right = arriving()
        allocate (p(elems_of(rank)))
        do i = 1, size(p)
            p(i) = particle(id_of(rank, i), target_of(rank, i), 0.5d0 * id_of(rank, i))
        end do
        call d%create(comm, datamover_memory(p(:)%target), method=method)
        call d%received(count)
        allocate (q(count + 2), mass(count))
        call d%move(datamover_memory(p), datamover_memory(q))
        call d%move(datamover_memory(p(:)%mass), datamover_memory(mass))
        call expect(all(q(:count)%id == right), 'records by '//method)
        call expect(all(q(:count)%target == rank), 'their ranks by '//method)
        call expect(all(q(count + 1:)%id == -1), 'beyond what arrives')
        call expect(all(mass == 0.5d0 * right), 'a component by '//method)
        call d%free()
    end subroutine

    ! Each element goes to two processes; what they make of it is summed.
    subroutine several_ranks()
        type(datamover_migration) :: d
        integer, target :: ranks(2, 6), a(6), back(6)
        integer, allocatable, target :: b(:)
        integer(int64) :: count
        integer :: i
        do i = 1, 6
            ranks(:, i) = [mod(i + rank, nprocs), mod(2 * i, nprocs)]
            a(i) = 10 * rank + i
        end do
        ranks(:, 5) = [-1, rank]
        call d%create(comm, datamover_memory(ranks), max_bytes=64_int64)
        call d%received(count)
        allocate (b(count))
        call d%move(datamover_memory(a), datamover_memory(b))
        b = b + 1000 * (rank + 1)
        back = -1
        call d%reverse(datamover_memory(b), datamover_memory(back), op='add')
        do i = 1, 6
            call expect(back(i) == sum(a(i) + 1000 * (ranks(:, i) + 1), ranks(:, i) >= 0), 'a sum')
        end do
        call d%free()
    end subroutine

    ! What arrives are the numbers of elements whose rank `right` tells as this process's.
    subroutine goes_where(map, keys, ids, right)
        type(datamover_target_map), intent(in) :: map
        type(datamover_memory), intent(in) :: keys
        integer, intent(in), target, asynchronous :: ids(:)
        integer(int64), intent(in) :: right(:)
        type(datamover_migration) :: d
        integer, allocatable, target :: arrived(:)
        integer(int64), allocatable :: told(:)
        integer(int64) :: count
        integer :: p
        allocate (told(size(right)))
        call map%ranks(keys, told)
        call expect(all(told == right), 'ranks of keys')
        call d%create_by_keys(comm, map, keys, method='partition')
        call d%received(count)
        allocate (arrived(count))
        call d%move(datamover_memory(ids), datamover_memory(arrived))
        call expect(all(mod(arrived, 100) == rank), 'elements of other processes')
        do p = 0, nprocs - 1
            call expect(test_sum(comm, merge(int(count), 0, rank == p)) == &
                test_sum(comm, int(sum(merge(1, 0, right == p)))), 'how many arrive')
        end do
        call d%free()
    end subroutine

    subroutine integer_keys()
        type(datamover_target_map) :: map
        integer, allocatable, target :: keys(:, :), ids(:)
        integer(int64), allocatable :: right(:)
        integer :: i, n
        n = 30 + 3 * rank
        allocate (keys(2, n), source=0)
        keys(1, :) = [(mod(i * i + 7 * rank, 50) + 1, i=1, n)]
        call map%create_modulo(nprocs)
        right = modulo(keys(1, :) - 60, nprocs)
        ids = int(right)
        keys(1, :) = keys(1, :) - 60
        call goes_where(map, datamover_memory(keys(1, :)), ids, right)
        keys(1, :) = keys(1, :) + 60
        call map%create_block(50_int64, nprocs)
        right = (keys(1, :) - 1) / ((50 + nprocs - 1) / nprocs)
        ids = int(right)
        call goes_where(map, datamover_memory(keys(1, :)), ids, right)
        call map%create_splitters([(10 + 5 * i, i=1, nprocs - 1)])
        right = [(count([(keys(1, n) >= 10 + 5 * i, i=1, nprocs - 1)]), n=1, size(keys, 2))]
        ids = int(right)
        call goes_where(map, datamover_memory(keys(1, :)), ids, right)
        call map%create_splitters([(9.5d0 + 5 * i, i=1, nprocs - 1)])
        call goes_where(map, datamover_memory(keys(1, :)), ids, right)
        call map%free()
        call map%free()
    end subroutine

    ! Two columns of cells, three rows, dealt out by a table and by equal parts.
    subroutine positions()
        type(datamover_target_map) :: map
        real(real64), allocatable, target :: x(:, :)
        integer, allocatable, target :: ids(:)
        integer(int64), allocatable :: right(:)
        integer :: cells(8), owners(6), i, n
        n = 20 + rank
        allocate (x(2, n), ids(n))
        do i = 1, n
            x(:, i) = [mod(0.37d0 * i + 0.11d0 * rank, 1d0) * 2 - 1, mod(0.73d0 * i, 1d0) * 6]
        end do
        owners = [(mod(3 * i, nprocs), i=1, 6)]
        call map%create_cells([-1d0, 0d0], [1d0, 6d0], [2, 3], nprocs, owners=owners, periodic=.true.)
        right = [(owners(int(x(1, i) + 1) * 3 + int(x(2, i) / 2) + 1), i=1, n)]
        ids = int(right)
        ! Wrapped around.
        x(2, :) = x(2, :) + 12
        call goes_where(map, datamover_memory(x), ids, right)
        x(2, :) = x(2, :) - 12
        ! Hilbert's curve in the plane goes up, across and down.
        cells(:4) = [0, 1, 3, 2]
        call map%create_cells([-1d0, 0d0], [1d0, 6d0], [2_int64, 2_int64], nprocs, order='hilbert')
        right = [(cells(int(x(1, i) + 1) * 2 + int(x(2, i) / 3) + 1) * nprocs / 4, i=1, n)]
        ids = int(right)
        call goes_where(map, datamover_memory(x), ids, right)
        call map%free()
    end subroutine

    subroutine map_refusals()
        type(datamover_target_map) :: map, never
        type(datamover_migration) :: d
        integer, target :: keys(4)
        real(real64), target :: x(3, 4)
        integer(int64) :: told(4)
        integer :: code
        character(300) :: text
        keys = [1, 2, 3, 9]
        x = 0
        call never%ranks(datamover_memory(keys), told, stat=code)
        call expect(code == datamover_invalid_argument, 'a map that was never made')
        call map%create_modulo(0, stat=code)
        call expect(code == datamover_invalid_argument, 'no processes')
        call map%create_block(3_int64, nprocs)
        call map%ranks(datamover_memory(keys), told)
        call expect(told(4) == datamover_no_target, 'no target')
        call map%ranks(datamover_memory(keys(:3)), told, stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, '3 elements') > 0, 'ranks: '//text)
        call map%ranks(datamover_memory(x), told, stat=code)
        call expect(code == datamover_mismatch, 'three numbers for one')
        call map%create_splitters(['a', 'b'], stat=code)
        call expect(code == datamover_invalid_argument, 'splitters that are no numbers')
        call map%create_splitters([2d0, 1d0], stat=code)
        call expect(code == datamover_invalid_argument, 'splitters that fall')
        call map%create_cells([0d0], [1d0, 2d0], [1], nprocs, stat=code)
        call expect(code == datamover_mismatch, 'corners of two spaces')
        call map%create_cells([0d0], [1d0], [3], nprocs, owners=[0, 0], stat=code)
        call expect(code == datamover_mismatch, 'too few owners')
        call map%create_cells([0d0], [1d0], [3], nprocs, order='zigzag', stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'zigzag') > 0, 'an order')
        if (rank > 0) keys(4) = 1
        call d%create_by_keys(comm, map, datamover_memory(keys), stat=code, errmsg=text)
        call expect(code == datamover_out_of_range .and. index(text, 'no target') > 0, &
            'a key outside: '//text)
        if (rank == nprocs - 1) then
            call d%create_by_keys(comm, map, datamover_memory(told(1)), stat=code)
        else
            keys(4) = 1
            call d%create_by_keys(comm, map, datamover_memory(keys), stat=code)
        end if
        call expect(code == datamover_mismatch, 'a number is no array')
        call map%free()
    end subroutine

    subroutine refusals()
        type(datamover_migration) :: d, never
        integer, target :: ranks(4), a(4), b(8), c(4)
        real(real64), target :: reals(4), x(2, 4), y(2, 4)
        integer, allocatable, target :: not_there(:)
        integer(int64) :: count
        integer :: code
        logical :: last, done
        character(300) :: text
        last = rank == nprocs - 1
        ranks = rank
        a = [1, 2, 3, 4]
        call never%received(count, stat=code)
        call expect(code == datamover_invalid_argument, 'never made')
        if (last) ranks(3) = nprocs
        call d%create(comm, datamover_memory(ranks), stat=code, errmsg=text)
        call expect(code == datamover_out_of_range, 'no such rank: '//text)
        ranks = rank
        if (last) then
            call d%create(comm, datamover_memory(not_there), stat=code, errmsg=text)
        else
            call d%create(comm, datamover_memory(ranks), stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_argument .and. index(text, 'not allocated') > 0, &
            'no ranks: '//text)
        reals = 0
        call d%create(comm, datamover_memory(reals), stat=code, errmsg=text)
        call expect(code == datamover_wrong_type, 'real ranks')
        call d%create(comm, datamover_memory(ranks), method='magic', stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'magic') > 0, &
            'a method: '//text)
        call d%create(comm, datamover_memory(ranks))
        call d%wait(stat=code)
        call expect(code == datamover_invalid_state, 'waited for nothing')

        ! What is wrong on the last process all are told.
        c = 0
        call d%start(datamover_memory(a), datamover_memory(c(:merge(3, 4, last))))
        call d%wait(stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, 'room for 3') > 0, &
            'too little room: '//text)
        if (last) then
            call d%start(datamover_memory(a), datamover_memory(b(::2)))
        else
            call d%start(datamover_memory(a), datamover_memory(c))
        end if
        call d%wait(stat=code, errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'gaps') > 0, &
            'gaps: '//text)
        if (last) then
            call d%move(datamover_memory(x(::2, :)), datamover_memory(y(1, :)), stat=code, &
                errmsg=text)
        else
            call d%move(datamover_memory(x(1, :)), datamover_memory(y(1, :)), stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_argument, 'gaps in a result: '//text)
        call d%move(datamover_memory(a(:merge(3, 4, last))), datamover_memory(c), stat=code, &
            errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, '3 elements') > 0, &
            'too few elements: '//text)
        call d%move([datamover_memory(a), datamover_memory(reals)], [datamover_memory(c)], &
            stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, '2 columns') > 0, 'one result')
        call d%move(datamover_memory(a), datamover_memory(reals), stat=code)
        call expect(code == datamover_wrong_type, 'another type')
        call d%reverse(datamover_memory(a), datamover_memory(c), op='divide', stat=code, &
            errmsg=text)
        call expect(code == datamover_invalid_argument .and. index(text, 'divide') > 0, 'an op')
        call expect(all(c == 0), 'nothing has moved')

        call d%start(datamover_memory(a), datamover_memory(c))
        call d%start(datamover_memory(a), datamover_memory(b(:4)), stat=code)
        call expect(code == datamover_invalid_state, 'started twice')
        call d%test(done)
        if (.not. done) call d%wait(timeout=60d0)
        call expect(all(c == a), 'after all errors')
        call d%free()
        call d%free()
    end subroutine

end program
