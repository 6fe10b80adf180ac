! SPDX-License-Identifier: BSD-3-Clause
! Sending arrays by a stream.
submodule (datamover) datamover_streams
    implicit none

    ! C's datamover_stream_options.
    type, bind(c) :: stream_options
        integer(c_int64_t) :: pathways = 0
        type(c_ptr) :: policy = c_null_ptr
        integer(c_int64_t) :: queue_steps = 0, queue_bytes = 0, consumers = 0
        type(c_ptr) :: token = c_null_ptr
        real(c_double) :: timeout_seconds = 0
        integer(c_int) :: no_shared_memory = 0, open = 0
    end type

    ! C's DATAMOVER_NEXT_STEP.
    integer(c_int64_t), parameter :: step_of_its_own = -1

    abstract interface
        function c_text_function(stream, text) bind(c) result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: stream
            type(c_ptr), intent(inout) :: text
            integer(c_int) :: code
        end function
    end interface

    interface
        function c_open(stream, comm, so_far, address, options) &
            bind(c, name='datamover_fortran_stream_open') result(code)
            import :: c_ptr, c_int, c_char, stream_options
            type(c_ptr), intent(inout) :: stream
            integer(c_int), value :: comm, so_far
            character(kind=c_char), intent(in) :: address(*)
            type(stream_options), intent(in) :: options
            integer(c_int) :: code
        end function
        function c_send(stream, name, array, step) bind(c, name='datamover_stream_send') &
            result(code)
            import :: c_ptr, c_int, c_char, c_int64_t
            type(c_ptr), value :: stream, array
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: step
            integer(c_int) :: code
        end function
        function c_refuse(stream, why, message) bind(c, name='datamover_stream_refuse') &
            result(code)
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: stream
            integer(c_int), value :: why
            character(kind=c_char), intent(in) :: message(*)
            integer(c_int) :: code
        end function
        function c_end_step(stream) bind(c, name='datamover_stream_end_step') result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: stream
            integer(c_int) :: code
        end function
        function c_close(stream, timeout_seconds) bind(c, name='datamover_stream_close') &
            result(code)
            import :: c_ptr, c_int, c_double
            type(c_ptr), value :: stream
            real(c_double), value :: timeout_seconds
            integer(c_int) :: code
        end function
    end interface
    procedure(c_text_function), bind(c, name='datamover_stream_address') :: c_address
    procedure(c_text_function), bind(c, name='datamover_stream_token') :: c_token
    procedure(c_free_function), bind(c, name='datamover_stream_free') :: c_free

contains

    module procedure open_stream
        type(stream_options) :: options
        character(:), allocatable, target :: policy_text, token_text
        type(c_ptr) :: made
        integer(c_int) :: code
        code = 0
        made = c_null_ptr
        if (c_associated(self%handle)) &
            code = refused(datamover_invalid_state, 'the stream is open; free it first')
        policy_text = c_text(policy)
        token_text = c_text(token)
        options%policy = text_at(policy_text, present(policy))
        options%token = text_at(token_text, present(token))
        if (present(consumers)) options%consumers = consumers
        if (present(queue_steps)) options%queue_steps = queue_steps
        if (present(queue_bytes)) options%queue_bytes = queue_bytes
        if (present(timeout)) options%timeout_seconds = timeout
        if (present(pathways)) options%pathways = pathways
        if (present(shared_memory)) options%no_shared_memory = merge(0, 1, shared_memory)
        if (present(open)) options%open = merge(1, 0, open)
        code = c_open(made, int(comm, c_int), code, trim(address)//c_null_char, options)
        if (code == 0) self%handle = made
        call conclude(code, stat, errmsg)
    end procedure

    module procedure stream_address
        call read_text(self, c_address, address, stat, errmsg)
    end procedure

    module procedure stream_token
        call read_text(self, c_token, token, stat, errmsg)
    end procedure

    subroutine read_text(stream, read, text, stat, errmsg)
        class(datamover_stream), intent(in) :: stream
        procedure(c_text_function) :: read
        character(:), allocatable, intent(out) :: text
        integer, intent(out), optional :: stat
        character(*), intent(inout), optional :: errmsg
        type(c_ptr) :: at
        integer(c_int) :: code
        at = c_null_ptr
        code = read(stream%handle, at)
        text = ''
        if (code == 0) text = text_from(at)
        call conclude(code, stat, errmsg)
    end subroutine

    module procedure send
        type(c_ptr) :: sent
        integer(c_int64_t) :: number
        integer(c_int) :: code
        code = 0
        number = step_of_its_own
        if (present(step)) call number_of(step, number, code)
        call make_array(array, sent, code)
        if (code == 0) then
            code = c_send(self%handle, trim(name)//c_null_char, sent, number)
        else
            code = c_refuse(self%handle, code, last_message()//c_null_char)
        end if
        call free_array(sent)
        call conclude(code, stat, errmsg)
    end procedure

    subroutine number_of(step, number, code)
        class(*), intent(in) :: step
        integer(c_int64_t), intent(inout) :: number
        integer(c_int), intent(inout) :: code
        select type (step)
        type is (integer(int32))
            number = step
        type is (integer(int64))
            number = step
        class default
            code = refused(datamover_invalid_argument, 'step is not an integer')
            return
        end select
        if (number < 0) code = refused(datamover_invalid_argument, 'step is below 0')
    end subroutine

    module procedure end_step
        call conclude(c_end_step(self%handle), stat, errmsg)
    end procedure

    module procedure close_stream
        real(c_double) :: limit
        limit = 30
        if (present(timeout)) limit = timeout
        call conclude(c_close(self%handle, limit), stat, errmsg)
    end procedure

    module procedure free_stream
        call conclude(c_free(self%handle))
    end procedure

end submodule
