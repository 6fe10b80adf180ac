! SPDX-License-Identifier: BSD-3-Clause
! Streams in Fortran: arrays arrive in another program, and arrays of another program in this one.
! `streams send PATH` writes its address to PATH and sends three steps, `streams receive ADDRESS`
! takes four. Without arguments, the program is both ends of one stream.
program streams
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int32, int64, real64
    use datamover
    use expectations
    implicit none

    character(*), parameter :: here = 'tcp://127.0.0.1:0', known = 'known to both programs'
    integer, parameter :: rows = 13, columns = 7
    integer(int64), parameter :: far_step = 2_int64**40
    real(c_double), parameter :: limit = 60
    character(500) :: told
    character(7) :: mode

    ! Two arrays, u in tiles, with every second row of memory, and v by columns.
    type(datamover_layout) :: tiles, by_columns
    type(datamover_array) :: u, v
    real(real64), allocatable, target, asynchronous :: u_memory(:, :)
    integer(int32), allocatable, target, asynchronous :: v_memory(:, :)
    integer, allocatable :: u_extents(:), v_extents(:)

    call begin_test()
    call make_arrays()
    call get_command_argument(1, mode)
    call get_command_argument(2, told)
    select case (mode)
    case ('send')
        call be_sender(trim(told))
    case ('receive')
        call be_receiver(trim(told))
    case default
        call be_both_ends()
        call refusals()
    end select
    call u%detach()
    call v%detach()
    call tiles%free()
    call by_columns%free()
    call end_test()

contains

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

    subroutine make_arrays()
        call tiles%create_block_cyclic([rows, columns], '(cyclic(2), cyclic(3))', nprocs)
        call by_columns%create_block_cyclic([rows, columns], '(*, cyclic)', nprocs)
        call tiles%local_shape(rank, u_extents)
        call by_columns%local_shape(rank, v_extents)
        allocate (u_memory(2 * u_extents(1), u_extents(2)), source=-1d0)
        allocate (v_memory(v_extents(1), v_extents(2)), source=-1)
        call u%attach(tiles, datamover_memory(u_memory(::2, :)), my_block(tiles))
        call v%attach(by_columns, datamover_memory(v_memory), my_block(by_columns))
    end subroutine

    ! What element (i, j) of u is in a step; v has whole numbers.
    pure real(real64) function value_at(i, j, step)
        integer(int64), intent(in) :: i, j, step
        value_at = 100 * i + j + 10000 * step + 0.5d0
    end function

    subroutine fill(step)
        integer(int64), intent(in) :: step
        integer(int64), allocatable :: at(:)
        integer :: i, j
        do j = 1, u_extents(2)
            do i = 1, u_extents(1)
                call tiles%global_index(rank, [i, j], at)
                u_memory(2 * i - 1, j) = value_at(at(1), at(2), step)
            end do
        end do
        do j = 1, v_extents(2)
            do i = 1, v_extents(1)
                call by_columns%global_index(rank, [i, j], at)
                v_memory(i, j) = int(value_at(at(1), at(2), -step))
            end do
        end do
    end subroutine

    ! u is that of `u_step`, v that of `v_step`, in the memory of this program.
    subroutine expect_values(u_step, v_step)
        integer(int64), intent(in) :: u_step, v_step
        integer(int64), allocatable :: at(:)
        integer :: i, j
        do j = 1, u_extents(2)
            do i = 1, u_extents(1)
                call tiles%global_index(rank, [i, j], at)
                call expect(u_memory(2 * i - 1, j) == value_at(at(1), at(2), u_step), 'u')
            end do
        end do
        call expect(all(u_memory(2::2, :) == -1), 'memory between the rows')
        do j = 1, v_extents(2)
            do i = 1, v_extents(1)
                call by_columns%global_index(rank, [i, j], at)
                call expect(v_memory(i, j) == int(value_at(at(1), at(2), -v_step)), 'v')
            end do
        end do
    end subroutine

    subroutine be_sender(path)
        character(*), intent(in) :: path
        type(datamover_stream) :: out
        character(:), allocatable :: address, token
        integer :: unit, step
        call out%create(comm, here, consumers=1, timeout=limit, token=known, pathways=2, queue_steps=1)
        call out%address(address)
        call out%token(token)
        call expect(token == known, 'the token')
        if (rank == 0) then
            open (newunit=unit, file=path, action='write')
            write (unit, '(a)') address
            close (unit)
        end if
        do step = 0, 2
            call fill(int(step, int64))
            call out%send('u', u, step=5 * step)
            call out%send('v', v, step=5 * step)
            u_memory = -1
            v_memory = -1
        end do
        call fill(3_int64)
        call out%send('u', u, step=far_step)
        call out%end_step()
        call out%close(timeout=limit)
        call out%close()
        call out%free()
        call out%free()
    end subroutine

    ! Every second step has u alone.
    subroutine be_receiver(address)
        character(*), intent(in) :: address
        type(datamover_stream_source) :: source
        integer(int64) :: step, n
        logical :: has
        call source%create(comm, address, token=known, timeout=limit, ahead=1)
        call source%subscribe(['u    ', 'v    '], [u, v])
        do n = 0, 3
            call source%next(step, timeout=limit)
            call expect(step == n * 2_int64**33, 'the number of a step')
            call source%has('u', has)
            call expect(has, 'u was sent')
            call source%has('v', has)
            call expect(has .eqv. mod(n, 2_int64) == 0, 'v was sent')
            call expect_values(n, n - mod(n, 2_int64))
        end do
        call source%next(step)
        call expect(step == datamover_no_step, 'the end')
        call source%free()
        call source%free()
    end subroutine

    subroutine be_both_ends()
        type(datamover_stream) :: out
        type(datamover_stream_source) :: source
        type(datamover_array) :: there
        real(real64), allocatable, target, asynchronous :: received(:, :)
        integer(int64), allocatable :: at(:)
        character(:), allocatable :: address, token
        integer(int64) :: step, n
        integer :: i, j, code
        call out%create(comm, here, consumers=1, timeout=limit, policy='drop_oldest', &
            queue_bytes=1000000_int64, shared_memory=.false.)
        call out%address(address)
        call out%token(token)
        call expect(index(address, 'tcp://127.0.0.1:') == 1, 'an address: '//address)
        call expect(len(token) == 48, 'a token of its own')
        call source%create(comm, address, newest=.true., shared_memory=.false.)
        allocate (received(v_extents(1), v_extents(2)), source=-1d0)
        call there%attach(by_columns, datamover_memory(received), my_block(by_columns))
        call source%subscribe('u', there)
        do n = 0, 2
            call fill(n)
            call out%send('u', u)
            call source%next(step, timeout=limit)
            call expect(step == n, 'numbers from 0 where none is told')
            do j = 1, v_extents(2)
                do i = 1, v_extents(1)
                    call by_columns%global_index(rank, [i, j], at)
                    call expect(received(i, j) == value_at(at(1), at(2), n), 'u by columns')
                end do
            end do
        end do
        step = 0
        call source%next(step, timeout=0.01d0, stat=code)
        call expect(code == datamover_timeout .and. step == datamover_no_step, 'nothing was sent')
        call out%close()
        call source%next(step, timeout=limit)
        call expect(step == datamover_no_step, 'the end')
        call source%free()
        call out%free()
        call there%detach()
    end subroutine

    subroutine refusals()
        type(datamover_stream) :: out, never
        type(datamover_stream_source) :: source, none
        type(datamover_array) :: nothing
        character(:), allocatable :: address, text_of_none
        character(300) :: text
        integer(int64) :: step
        integer :: code
        logical :: has
        call never%send('u', u, stat=code)
        call expect(code == datamover_invalid_argument, 'never opened')
        call never%address(text_of_none, stat=code)
        call expect(code == datamover_invalid_argument .and. text_of_none == '', 'no address')
        call none%next(step, stat=code)
        call expect(code == datamover_invalid_argument, 'never connected')
        call out%create(comm, 'udp://127.0.0.1:0', stat=code)
        call expect(code == datamover_invalid_argument, 'no such address')
        call out%create(comm, here, policy=merge('forget', 'block ', is_last()), stat=code)
        call expect(code == datamover_invalid_argument, 'no such policy')
        call out%create(comm, here, token='short', stat=code)
        call expect(code == datamover_invalid_argument, 'a short token')
        call out%create(comm, here, consumers=1, token=known)
        call out%address(address)
        if (is_last()) then
            call out%create(comm, here, stat=code, errmsg=text)
        else
            call never%create(comm, here, stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_state .and. index(text, 'free it first') > 0, &
            'opened twice: '//text)

        ! What is wrong on the last process all are told.
        if (is_last()) then
            call out%send('u', nothing, stat=code, errmsg=text)
        else
            call out%send('u', u, stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_state .and. index(text, 'nothing is attached') > 0, &
            'nothing to send: '//text)
        if (is_last()) then
            call out%send('u', u, step=-1, stat=code, errmsg=text)
        else
            call out%send('u', u, step=1, stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_argument .and. index(text, 'below 0') > 0, &
            'a step below 0: '//text)
        call out%send('u', u, step=1.0, stat=code)
        call expect(code == datamover_invalid_argument, 'a step that is no integer')
        call out%send('', u, stat=code)
        call expect(code == datamover_invalid_argument, 'no name')

        call source%create(comm, address, token='known to one of them', stat=code)
        call expect(code == datamover_invalid_argument, 'another token')
        call source%create(comm, address, token=known, ahead=65, stat=code)
        call expect(code == datamover_invalid_argument, 'too far ahead')
        call source%create(comm, 'tcp://127.0.0.1:1', timeout=0.01d0, stat=code)
        call expect(code == datamover_timeout, 'nobody listens')
        call source%create(comm, address, token=known)
        if (is_last()) then
            call source%create(comm, address, token=known, stat=code, errmsg=text)
        else
            call none%create(comm, address, token=known, stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_state .and. index(text, 'free it first') > 0, &
            'connected twice: '//text)
        if (is_last()) then
            call source%subscribe(['u', 'v'], [u, nothing], stat=code, errmsg=text)
        else
            call source%subscribe(['u', 'v'], [u, v], stat=code, errmsg=text)
        end if
        call expect(code == datamover_invalid_state .and. index(text, 'nothing is attached') > 0, &
            'nothing to receive into: '//text)
        call source%subscribe(['u', 'v', 'w'], [u, v], stat=code, errmsg=text)
        call expect(code == datamover_mismatch .and. index(text, '3 names and 2 arrays') > 0, &
            'one array less: '//text)
        call source%subscribe(['u', 'u'], [u, v], stat=code)
        call expect(code == datamover_invalid_argument, 'wanted twice')
        call source%subscribe('u', v)
        call source%subscribe('u', v, stat=code)
        call expect(code == datamover_invalid_state, 'said twice')
        call out%send('u', u, step=1)
        call out%send('u', u, step=1, stat=code)
        call expect(code == datamover_invalid_argument, 'twice in a step')
        call out%send('u', v, stat=code)
        call expect(code == datamover_wrong_type .or. code == datamover_mismatch, 'another array')
        call source%next(step, timeout=limit, stat=code)
        call expect(code == datamover_wrong_type .and. step == datamover_no_step, 'reals')
        call source%has('u', has, stat=code)
        call expect(code == datamover_success .and. .not. has, 'no step has come')
        call source%free()
        call out%close(timeout=1d0)
        call out%send('u', u, stat=code)
        call expect(code == datamover_invalid_state, 'it has ended')
        call out%free()
        call never%free()
        call none%free()
    end subroutine

end program
