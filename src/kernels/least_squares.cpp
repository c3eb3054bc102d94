#include "kernels/least_squares.h"

#include <atomic>
#include <limits>

#include "kernels/factor_batch.h"

namespace weft::kernels {
namespace {

using lapack::Real;
using lapack::Routine;

/// A driver for systems of one size, on column-major matrices.
template <class T>
class Solver {
public:
    Solver(LeastSquares way, LeastSquaresSizes s, double rcond)
        : way_(way), m_(lapack::size(s.m)), n_(lapack::size(s.n)), k_(lapack::size(s.k)),
          tall_(std::max({m_, n_, BlasInt{1}})), rcond_(static_cast<Real<T>>(rcond)),
          pivots_(batch::room<BlasInt>(s.n)) {
        T works{};
        Real<T> reals{};
        BlasInt integers = 0, rank = 0;
        run(nullptr, nullptr, nullptr, &rank, &works, -1, &reals, &integers);
        works_ = static_cast<BlasInt>(std::real(works)) + 1;
        work_ = batch::room<T>(works_);
        const int64_t least = std::min(s.m, s.n);
        real_ =
            batch::room<Real<T>>(std::max({static_cast<int64_t>(reals), 2 * s.n, 5 * least}) + 1);
        integers_ = batch::room<BlasInt>(std::max<int64_t>(integers, 1));
    }
    BlasInt operator()(T* a, T* b, Real<T>* S, BlasInt* rank) {
        std::fill_n(pivots_.get(), n_, 0);
        return run(a, b, S, rank, work_.get(), works_, real_.get(), integers_.get());
    }

private:
    BlasInt run(T* a, T* b, Real<T>* S, BlasInt* rank, T* work, BlasInt works, Real<T>* reals,
                BlasInt* integers) {
        BlasInt info = 0;
        const BlasInt rows = std::max(m_, BlasInt{1});
        auto call = [&](Routine which, const auto&... rest) {
            lapack::call<T>(which, m_, n_, k_, a, rows, b, tall_, rest..., &info);
        };
        constexpr bool complex = lapack::is_complex<T>;
        switch (way_) {
            case LeastSquares::Gels:
                lapack::call<T>(Routine::Gels, 'N', m_, n_, k_, a, rows, b, tall_, work, works,
                                &info);
                break;
            case LeastSquares::Gelsy:
                if constexpr (complex)
                    call(Routine::Gelsy, pivots_.get(), rcond_, rank, work, works, reals);
                else call(Routine::Gelsy, pivots_.get(), rcond_, rank, work, works);
                break;
            case LeastSquares::Gelsd:
                if constexpr (complex)
                    call(Routine::Gelsd, S, rcond_, rank, work, works, reals, integers);
                else call(Routine::Gelsd, S, rcond_, rank, work, works, integers);
                break;
            case LeastSquares::Gelss:
                if constexpr (complex) call(Routine::Gelss, S, rcond_, rank, work, works, reals);
                else call(Routine::Gelss, S, rcond_, rank, work, works);
                break;
        }
        return info;
    }

    LeastSquares way_;
    BlasInt m_, n_, k_, tall_, works_ = 0;
    Real<T> rcond_;
    std::unique_ptr<BlasInt[]> pivots_, integers_;
    std::unique_ptr<T[]> work_;
    std::unique_ptr<Real<T>[]> real_;
};

}  // namespace

template <class T>
int64_t least_squares(LeastSquares way, LeastSquaresSizes s, double rcond, const T* a, const T* b,
                      T* x, int64_t* rank, Real<T>* S) {
    const int64_t least = std::min(s.m, s.n), tall = std::max(s.m, s.n);
    if (least == 0 || s.k == 0) {
        std::fill_n(x, s.count * s.n * s.k, T(0));
        if (rank) std::fill_n(rank, s.count, 0);
        if (S) std::fill_n(S, s.count * least, Real<T>(0));
        return -1;
    }
    constexpr int64_t none = std::numeric_limits<int64_t>::max();
    std::atomic<int64_t> failed{none};
    batch::for_each(s.count, s.m * s.n * (2 * least + s.k), [&](int64_t begin, int64_t end) {
        Solver<T> solver(way, s, rcond);
        auto matrix = batch::room<T>(s.m * s.n), columns = batch::room<T>(tall * s.k);
        for (int64_t i = begin; i < end; ++i) {
            batch::transpose(s.m, s.n, a + i * s.m * s.n, matrix.get());
            std::fill_n(columns.get(), tall * s.k, T(0));
            batch::transpose(s.m, s.k, b + i * s.m * s.k, s.k, columns.get(), tall);
            BlasInt found = 0;
            const BlasInt info =
                solver(matrix.get(), columns.get(), S ? S + i * least : nullptr, &found);
            if (rank) rank[i] = found;
            batch::transpose(s.k, s.n, columns.get(), tall, x + i * s.n * s.k, s.k);
            int64_t known = failed.load();
            while (info && i < known && !failed.compare_exchange_weak(known, i)) {
            }
        }
    });
    return failed.load() == none ? -1 : failed.load();
}

#define X(T)                                                                                       \
    template int64_t least_squares(LeastSquares, LeastSquaresSizes, double, const T*, const T*,    \
                                   T*, int64_t*, Real<T>*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
