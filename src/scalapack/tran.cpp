// SPDX-License-Identifier: BSD-3-Clause
// p?tran, p?tranu and p?tranc: transposing sections with PBLAS's arguments.
#include "matrix_call.hpp"

#include <dlfcn.h>

#include <complex>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

std::complex<double> factor(const void* at, datamover_type type) {
    const bool is_double = type == DATAMOVER_FLOAT64 || type == DATAMOVER_COMPLEX128;
    const bool is_complex = type == DATAMOVER_COMPLEX64 || type == DATAMOVER_COMPLEX128;
    const auto part = [&](int i) {
        return is_double ? static_cast<const double*>(at)[i]
                         : double{static_cast<const float*>(at)[i]};
    };
    return {part(0), is_complex ? part(1) : 0.0};
}

/// Descriptors of other kinds, and matrices that every process has a copy of.
bool is_dealt_out(const BlacsInt* descriptor) {
    return descriptor[0] == 1 && descriptor[6] >= 0 && descriptor[7] >= 0;
}

/// PBLAS counts alpha and beta among its arguments, p?gemr2d does not.
int position_in_tran(int position) {
    const auto shifted = [](int argument) {
        if (argument == 11) return 7;  // the context is A's
        return argument + (argument >= 7 ? 2 : argument >= 3 ? 1 : 0);
    };
    return position < 100 ? shifted(position) : 100 * shifted(position / 100) + position % 100;
}

using Symbol = void (*)(const BlacsInt*, const BlacsInt*, const void*, const void*, const BlacsInt*,
                        const BlacsInt*, const BlacsInt*, const void*, const void*, const BlacsInt*,
                        const BlacsInt*, const BlacsInt*);

int by_pblas(const Routine& routine, const Tran& t) {
    const auto theirs = reinterpret_cast<Symbol>(dlsym(RTLD_NEXT, routine.symbol));
    if (!theirs) {
        last_call().argument = 3;
        throw make_error(ErrorCode::unsupported,
                         "alpha is 0 or a descriptor is not one of a distributed dense matrix, "
                         "and no PBLAS with ",
                         routine.symbol, " is linked after datamover_scalapack");
    }
    theirs(t.m, t.n, t.alpha, t.a, t.ia, t.ja, t.desca, t.beta, t.c, t.ic, t.jc, t.descc);
    return DATAMOVER_SUCCESS;
}

int transpose(const Routine& routine, const Tran& t) {
    const std::complex<double> alpha = factor(t.alpha, routine.type),
                               beta = factor(t.beta, routine.type);
    if (alpha == 0.0 || !is_dealt_out(t.desca) || !is_dealt_out(t.descc) ||
        t.desca[1] != t.descc[1])
        return by_pblas(routine, t);
    const double alpha_parts[] = {alpha.real(), alpha.imag()};
    const double beta_parts[] = {beta.real(), beta.imag()};
    datamover_mover_options options{};
    options.conjugate = routine.conjugate;
    if (alpha != 1.0) options.alpha = alpha_parts;
    if (beta != 0.0) options.op = "add", options.beta = beta_parts;
    const Entries desca(t.desca), descc(t.descc);
    const int code =
        move_in_context(desca[1], {narrow(*t.m), narrow(*t.n),
                                   matrix_here(t.a, narrow(*t.ia), narrow(*t.ja), desca),
                                   matrix_here(t.c, narrow(*t.ic), narrow(*t.jc), descc),
                                   routine.type, routine.elem_bytes, 1, &options});
    last_call().argument = position_in_tran(last_call().argument);
    return code;
}

}  // namespace

void call_tran(const Routine& routine, const Tran& t) {
    tell_pxerbla(remembered([&] { return transpose(routine, t); }), routine.name,
                 narrow(t.desca[1]));
}

}  // namespace datamover
