! SPDX-License-Identifier: BSD-3-Clause
! Saving and loading arrays.
submodule (datamover) datamover_files
    implicit none

    ! C's datamover_file_options.
    type, bind(c) :: file_options
        integer(c_int) :: format = 0
        type(c_ptr) :: ranks = c_null_ptr
        integer(c_int64_t) :: num_ranks = 0, max_bytes = 0
        integer(c_int) :: overwrite = 0
    end type

    abstract interface
        function c_file_function(comm, so_far, path, array, options) bind(c) result(code)
            import :: c_ptr, c_int, c_char, file_options
            integer(c_int), value :: comm, so_far
            character(kind=c_char), intent(in) :: path(*)
            type(c_ptr), value :: array
            type(file_options), intent(in) :: options
            integer(c_int) :: code
        end function
    end interface
    procedure(c_file_function), bind(c, name='datamover_fortran_save') :: c_save
    procedure(c_file_function), bind(c, name='datamover_fortran_load') :: c_load

contains

    module procedure save_array
        type(file_options) :: options
        integer(c_int64_t), allocatable, target :: writers(:)
        type(c_ptr) :: array
        integer(c_int) :: code
        code = 0
        call make_array(self, array, code)
        call describe(format, ranks, max_bytes, options, writers, code)
        if (present(overwrite)) options%overwrite = merge(1, 0, overwrite)
        code = c_save(int(comm, c_int), code, trim(path)//c_null_char, array, options)
        call free_array(array)
        call conclude(code, stat, errmsg)
    end procedure

    module procedure load_array
        type(file_options) :: options
        integer(c_int64_t), allocatable, target :: readers(:)
        type(c_ptr) :: array
        integer(c_int) :: code
        code = 0
        call make_array(self, array, code)
        call describe(format, ranks, max_bytes, options, readers, code)
        code = c_load(int(comm, c_int), code, trim(path)//c_null_char, array, options)
        call free_array(array)
        call conclude(code, stat, errmsg)
    end procedure

    ! The options that saving and loading share; `wide` keeps what they point to.
    subroutine describe(format, ranks, max_bytes, options, wide, code)
        character(*), intent(in), optional :: format
        integer, intent(in), optional :: ranks(:)
        integer(int64), intent(in), optional :: max_bytes
        type(file_options), intent(inout) :: options
        integer(c_int64_t), allocatable, target, intent(out) :: wide(:)
        integer(c_int), intent(inout) :: code
        if (present(max_bytes)) options%max_bytes = max_bytes
        if (present(ranks)) then
            ! One more than are told: an array without elements has no address.
            wide = [int(ranks, c_int64_t), 0_c_int64_t]
            options%ranks = c_loc(wide)
            options%num_ranks = size(ranks)
        end if
        if (.not. present(format) .or. code /= 0) return
        select case (format)
        case ('raw')
            options%format = 1
        case ('npy')
            options%format = 2
        case default
            code = refused(datamover_invalid_argument, &
                "format is '"//trim(format)//"'; it must be 'npy' or 'raw'")
        end select
    end subroutine

end submodule
