// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of FFTW's own distributed transforms, in slabs. It is linked against FFTW and the MPI
// that FFTW was built for, not against datamover; the harness compiles it if they are installed.
// Arguments: seconds, then per case its name, 1 for real input or 0, and the extents.
#include <fftw3-mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <string>

#include "process_contest.hpp"

namespace {

using Shape = std::array<std::ptrdiff_t, 3>;
using Complex = std::complex<double>;

/// The one point that is not zero before the transform, as in `fft.py`.
constexpr Shape point{1, 2, 3};

/// A transform from slabs along the first dimension to slabs along the second.
class Transform {
public:
    Transform(const Shape& shape, bool real)
        : shape_(shape), modes_(real ? shape[2] / 2 + 1 : shape[2]) {
        const std::ptrdiff_t elems =
            fftw_mpi_local_size_3d_transposed(shape[0], shape[1], modes_, MPI_COMM_WORLD, &rows_,
                                              &first_row_, &columns_, &first_column_);
        in_ = fftw_alloc_real(static_cast<std::size_t>(2 * elems));
        out_ = fftw_alloc_complex(static_cast<std::size_t>(elems));
        const unsigned flags = FFTW_MEASURE | FFTW_MPI_TRANSPOSED_OUT;
        plan_ = real ? fftw_mpi_plan_dft_r2c_3d(shape[0], shape[1], shape[2], in_, out_,
                                                MPI_COMM_WORLD, flags)
                     : fftw_mpi_plan_dft_3d(shape[0], shape[1], shape[2],
                                            reinterpret_cast<fftw_complex*>(in_), out_,
                                            MPI_COMM_WORLD, FFTW_FORWARD, flags);
        std::fill_n(in_, 2 * elems, 0.0);
        if (point[0] < first_row_ || point[0] >= first_row_ + rows_) return;
        // Rows of real numbers have room for their modes.
        const std::ptrdiff_t row = (point[0] - first_row_) * shape[1] + point[1];
        in_[real ? row * 2 * modes_ + point[2] : 2 * (row * modes_ + point[2])] = 1;
    }
    ~Transform() {
        fftw_destroy_plan(plan_);
        fftw_free(in_);
        fftw_free(out_);
    }
    Transform(const Transform&) = delete;
    Transform& operator=(const Transform&) = delete;

    std::int64_t bytes() const { return 16 * shape_[0] * shape_[1] * modes_; }
    void operator()() const { fftw_execute(plan_); }
    void clear() { std::fill_n(out_[0], 2 * columns_ * shape_[0] * modes_, -1.0); }
    bool is_right() const {
        const auto wave = [&](int d, std::ptrdiff_t k) {
            const double turns = static_cast<double>(point[static_cast<std::size_t>(d)] * k) /
                                 static_cast<double>(shape_[static_cast<std::size_t>(d)]);
            return std::polar(1.0, -2 * std::numbers::pi * turns);
        };
        for (std::ptrdiff_t j = 0; j < columns_; ++j)
            for (std::ptrdiff_t i = 0; i < shape_[0]; ++i) {
                const Complex row = wave(0, i) * wave(1, first_column_ + j);
                for (std::ptrdiff_t k = 0; k < modes_; ++k) {
                    const fftw_complex& got = out_[(j * shape_[0] + i) * modes_ + k];
                    if (std::abs(Complex(got[0], got[1]) - row * wave(2, k)) > 1e-9) return false;
                }
            }
        return true;
    }

private:
    Shape shape_;
    std::ptrdiff_t modes_, rows_ = 0, first_row_ = 0, columns_ = 0, first_column_ = 0;
    double* in_ = nullptr;
    fftw_complex* out_ = nullptr;
    fftw_plan plan_ = nullptr;
};

void run_case(const std::string& name, const Shape& shape, bool real, double seconds) {
    const double start = MPI_Wtime();
    Transform transform(shape, real);
    const double setup = MPI_Wtime() - start;
    bench::ProcessContest contest(MPI_COMM_WORLD, name, "forward", transform.bytes(), seconds);
    contest.add(
        "fftw", [&] { transform(); },
        {[&] { transform.clear(); }, [&] { return transform.is_right(); }}, [=] { return setup; });
    contest.run();
}

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "fftw", [&] {
        fftw_mpi_init();
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        for (int a = 2; a + 4 < argc; a += 5)
            run_case(argv[a],
                     {std::atoll(argv[a + 2]), std::atoll(argv[a + 3]), std::atoll(argv[a + 4])},
                     std::atoi(argv[a + 1]) != 0, seconds);
        fftw_mpi_cleanup();
    });
}
