! SPDX-License-Identifier: BSD-3-Clause
! Plans.
submodule (datamover) datamover_plans
    implicit none

    abstract interface
        function c_plan_of_one(plan, from) bind(c) result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: from
            integer(c_int) :: code
        end function
        function c_plan_of_two(plan, first, second) bind(c) result(code)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: first, second
            integer(c_int) :: code
        end function
    end interface

    interface
        function c_redistribute(plan, source, source_lo, source_hi, destination, destination_lo, &
            destination_hi, axes, partial) &
            bind(c, name='datamover_redistribute_partial') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: source, destination, axes
            integer(c_int64_t), intent(in), optional :: source_lo(*), source_hi(*), &
                destination_lo(*), destination_hi(*)
            integer(c_int), value :: partial
            integer(c_int) :: code
        end function
        function c_halo(plan, layout, lower, upper, periodic_lo, periodic_hi, wraps, corners) &
            bind(c, name='datamover_halo') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), intent(inout) :: plan
            type(c_ptr), value :: layout, periodic_lo, periodic_hi, wraps
            integer(c_int64_t), intent(in) :: lower(*), upper(*)
            integer(c_int), value :: corners
            integer(c_int) :: code
        end function
        function c_plan_copy(plan, source_block, source_lo, source_hi, destination_block, &
            destination_lo, destination_hi, axes) bind(c, name='datamover_plan_copy') result(code)
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: plan, axes
            integer(c_int64_t), value :: source_block, destination_block
            integer(c_int64_t), intent(in) :: source_lo(*), source_hi(*), destination_lo(*), &
                destination_hi(*)
            integer(c_int) :: code
        end function
        function c_plan_save(plan, path) bind(c, name='datamover_plan_save') result(code)
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: plan
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int) :: code
        end function
        function c_plan_load(plan, path) bind(c, name='datamover_plan_load') result(code)
            import :: c_ptr, c_int, c_char
            type(c_ptr), intent(inout) :: plan
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int) :: code
        end function
        function c_plan_layout(plan, side, layout) bind(c, name='datamover_plan_layout') &
            result(code)
            import :: c_ptr, c_int
            type(c_ptr), value :: plan
            integer(c_int), value :: side
            type(c_ptr), intent(inout) :: layout
            integer(c_int) :: code
        end function
    end interface
    procedure(c_plan_of_two), bind(c, name='datamover_plan_new') :: c_plan_new
    procedure(c_plan_of_two), bind(c, name='datamover_plan_merge') :: c_plan_merge
    procedure(c_plan_of_one), bind(c, name='datamover_plan_reverse') :: c_plan_reverse
    procedure(c_plan_of_one), bind(c, name='datamover_plan_adjoint') :: c_plan_adjoint
    procedure(c_plan_of_two), bind(c, name='datamover_plan_compose') :: c_plan_compose
    procedure(c_free_function), bind(c, name='datamover_plan_free') :: c_plan_free

contains

    module procedure redistribute
        integer(c_int64_t), allocatable :: slo(:), shi(:), dlo(:), dhi(:)
        integer(c_int), allocatable, target :: from_0(:)
        type(c_ptr) :: made, axes_at
        integer(c_int) :: code, dims, leaves_unheld
        code = 0
        made = c_null_ptr
        leaves_unheld = 0
        if (present(partial)) leaves_unheld = merge(1, 0, partial)
        dims = dims_of(source%handle, code)
        call give_axes(axes, dims, from_0, axes_at, code)
        if (count([present(source_lo), present(source_hi), present(destination_lo), &
            present(destination_hi)]) == 4) then
            call widen(source_lo, -1, dims, 'source_lo', slo, code)
            call widen(source_hi, 0, dims, 'source_hi', shi, code)
            dims = dims_of(destination%handle, code)
            call widen(destination_lo, -1, dims, 'destination_lo', dlo, code)
            call widen(destination_hi, 0, dims, 'destination_hi', dhi, code)
        else if (present(source_lo) .or. present(source_hi) .or. present(destination_lo) .or. &
            present(destination_hi)) then
            code = refused(datamover_invalid_argument, 'a section has all four of source_lo, '// &
                'source_hi, destination_lo and destination_hi')
        end if
        ! Arrays that are not allocated are absent.
        if (code == 0) code = c_redistribute(made, source%handle, slo, shi, destination%handle, dlo, &
            dhi, axes_at, leaves_unheld)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    subroutine give_axes(axes, dims, from_0, at, code)
        integer, intent(in), optional :: axes(:)
        integer(c_int), intent(in) :: dims
        integer(c_int), allocatable, target, intent(out) :: from_0(:)
        type(c_ptr), intent(out) :: at
        integer(c_int), intent(inout) :: code
        at = c_null_ptr
        if (.not. present(axes) .or. code /= 0) return
        if (size(axes) /= dims) then
            code = refused(datamover_mismatch, 'axes has '//text_of(size(axes))// &
                ' entries; there are '//text_of(int(dims))//' dimensions')
            return
        end if
        from_0 = axes_from_0(axes)
        at = c_loc(from_0)
    end subroutine

    module procedure halo
        integer(c_int64_t), allocatable :: low(:), up(:)
        integer(c_int64_t), allocatable, target :: plo(:), phi(:)
        integer(c_int), allocatable, target :: around(:)
        type(c_ptr) :: made, plo_at, phi_at, wraps_at
        integer(c_int) :: code, dims, with_corners
        code = 0
        made = c_null_ptr
        plo_at = c_null_ptr
        phi_at = c_null_ptr
        wraps_at = c_null_ptr
        with_corners = 1
        if (present(corners)) with_corners = merge(1, 0, corners)
        dims = dims_of(layout%handle, code)
        call widen(lower, 0, dims, 'lower', low, code)
        call widen(upper, 0, dims, 'upper', up, code)
        if (present(periodic_lo) .neqv. present(periodic_hi)) &
            code = refused(datamover_invalid_argument, 'periodic_lo and periodic_hi go together')
        if (present(periodic_lo) .and. present(periodic_hi)) then
            call widen(periodic_lo, -1, dims, 'periodic_lo', plo, code)
            call widen(periodic_hi, 0, dims, 'periodic_hi', phi, code)
            if (code == 0) then
                plo_at = c_loc(plo)
                phi_at = c_loc(phi)
            end if
        end if
        if (present(wraps) .and. code == 0) then
            if (size(wraps) /= dims) then
                code = refused(datamover_mismatch, 'wraps has '//text_of(size(wraps))// &
                    ' entries; there are '//text_of(int(dims))//' dimensions')
            else
                around = merge(1_c_int, 0_c_int, wraps)
                wraps_at = c_loc(around)
            end if
        end if
        if (code == 0) code = c_halo(made, layout%handle, low, up, plo_at, phi_at, wraps_at, &
            with_corners)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure between
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_new(made, source%handle, destination%handle)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure copy
        integer(c_int64_t), allocatable :: slo(:), shi(:), dlo(:), dhi(:)
        integer(c_int), allocatable, target :: from_0(:)
        type(c_ptr) :: axes_at
        integer(c_int) :: code, source_dims, destination_dims
        code = 0
        call plan_dims(self, source_dims, destination_dims, code)
        call give_axes(axes, source_dims, from_0, axes_at, code)
        call widen(source_lo, -1, source_dims, 'source_lo', slo, code)
        call widen(source_hi, 0, source_dims, 'source_hi', shi, code)
        call widen(destination_lo, -1, destination_dims, 'destination_lo', dlo, code)
        call widen(destination_hi, 0, destination_dims, 'destination_hi', dhi, code)
        if (code == 0) code = c_plan_copy(self%handle, int(source_block, c_int64_t) - 1, slo, shi, &
            int(destination_block, c_int64_t) - 1, dlo, dhi, axes_at)
        call conclude(code, stat, errmsg)
    end procedure

    subroutine plan_dims(plan, source_dims, destination_dims, code)
        class(datamover_plan), intent(in) :: plan
        integer(c_int), intent(out) :: source_dims, destination_dims
        integer(c_int), intent(inout) :: code
        type(datamover_layout) :: layout
        integer(c_int) :: dims(0:1), side
        dims = 0
        do side = 0, 1
            if (code == 0) code = c_plan_layout(plan%handle, side, layout%handle)
            dims(side) = dims_of(layout%handle, code)
            call layout%free()
        end do
        source_dims = dims(0)
        destination_dims = dims(1)
    end subroutine

    module procedure merge_plans
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_merge(made, a%handle, b%handle)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure reverse
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_reverse(made, forth%handle)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure adjoint
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_adjoint(made, forth%handle)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure compose
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_compose(made, first%handle, next%handle)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure save_plan
        call conclude(c_plan_save(self%handle, trim(path)//c_null_char), stat, errmsg)
    end procedure

    module procedure load_plan
        type(c_ptr) :: made
        integer(c_int) :: code
        made = c_null_ptr
        code = c_plan_load(made, trim(path)//c_null_char)
        call replace(self%handle, c_plan_free, made, code, stat, errmsg)
    end procedure

    module procedure free_plan
        call conclude(c_plan_free(self%handle))
    end procedure

end submodule
