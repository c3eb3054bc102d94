#include "kernels/least_squares.h"

#include <atomic>
#include <limits>
#include <optional>

#include "kernels/factor_batch.h"
#include "kernels/reflections.h"

namespace weft::kernels {
namespace {

using lapack::Real;
using lapack::Routine;

/// A driver for systems of one size.
template <class T>
class Solver {
public:
    Solver(LeastSquares way, LeastSquaresSizes s, double rcond)
        : way_(way), m_(lapack::size(s.m)), n_(lapack::size(s.n)), k_(lapack::size(s.k)),
          tall_(std::max({m_, n_, BlasInt{1}})), rcond_(static_cast<Real<T>>(rcond)),
          pivots_(batch::room<BlasInt>(s.n)), matrix_(batch::room<T>(s.m * s.n)),
          columns_(batch::room<T>(tall_ * s.k)) {
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
    BlasInt operator()(const T* a, const T* b, T* x, Real<T>* S, BlasInt* rank) {
        const int64_t m = m_, n = n_, k = k_, tall = tall_;
        batch::transpose(m, n, a, matrix_.get());
        std::fill_n(columns_.get(), tall * k, T(0));
        batch::transpose(m, k, b, k, columns_.get(), tall);
        std::fill_n(pivots_.get(), n, 0);
        const BlasInt info = run(matrix_.get(), columns_.get(), S, rank, work_.get(), works_,
                                 real_.get(), integers_.get());
        batch::transpose(k, n, columns_.get(), tall, x, k);
        return info;
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
    std::unique_ptr<T[]> matrix_, columns_, work_;
    std::unique_ptr<Real<T>[]> real_;
};

/// Up to how many elements of A LAPACK's own loops are faster.
constexpr int64_t kSmall = 1024;

/// For tall real matrices of full rank, whose solution is one whatever the pivots: by QR without them.
template <class T>
class FullRankSolver {
public:
    FullRankSolver(LeastSquares way, LeastSquaresSizes s, double rcond)
        : s_(s), counts_(way == LeastSquares::Gelsy), rcond_(rcond),
          reflections_(s.m, std::max(s.n, s.k), s.n), factor_(batch::room<T>(s.m * s.n)),
          tau_(batch::room<T>(s.n)), columns_(batch::room<T>(s.m * s.k)) {}
    static bool takes(LeastSquares way, LeastSquaresSizes s) {
        return way <= LeastSquares::Gelsy && s.m >= s.n && s.m * s.n > kSmall;
    }
    /// False, without X, if A may have a lower rank.
    bool operator()(const T* a, const T* b, T* x) {
        T* R = factor_.get();
        reflections_.factor(s_.n, a, R, tau_.get());
        for (int64_t i = 0; i < s_.n; ++i)
            if (!(std::fabs(R[i * (s_.n + 1)]) > 0)) return false;
        std::copy_n(b, s_.m * s_.k, columns_.get());
        reflections_.apply_adjoint(s_.k, columns_.get());
        std::copy_n(columns_.get(), s_.n * s_.k, x);
        batch::solve_right('L', 'N', 'N', s_.k, s_.n, R, x);
        return !counts_ || has_full_rank(R);
    }

private:
    /// No estimate of R's condition is above the product of the norms of R and its inverse, which takes its
    /// place.
    bool has_full_rank(T* R) const {
        const double size = norm(R);
        BlasInt info = 0;
        const auto n = lapack::size(s_.n);
        lapack::call<T>(Routine::Trtri, 'L', 'N', n, R, n, &info);
        return size * norm(R) * rcond_ < 1;
    }
    double norm(const T* R) const {
        double squares = 0;
        for (int64_t i = 0; i < s_.n; ++i)
            for (int64_t j = i; j < s_.n; ++j) {
                const double x = R[i * s_.n + j];
                squares += x * x;
            }
        return std::sqrt(squares);
    }

    LeastSquaresSizes s_;
    bool counts_;
    double rcond_;
    Reflections<T> reflections_;
    std::unique_ptr<T[]> factor_, tau_, columns_;
};

/// Never for complex matrices.
template <class T>
struct NoSolver {
    NoSolver(LeastSquares, LeastSquaresSizes, double) {}
    static bool takes(LeastSquares, LeastSquaresSizes) { return false; }
    bool operator()(const T*, const T*, T*) { return false; }
};
template <class T>
using FullRank = std::conditional_t<lapack::is_complex<T>, NoSolver<T>, FullRankSolver<T>>;

}  // namespace

template <class T>
int64_t least_squares(LeastSquares way, LeastSquaresSizes s, double rcond, const T* a, const T* b,
                      T* x, int64_t* rank, Real<T>* S) {
    const int64_t least = std::min(s.m, s.n);
    if (least == 0 || s.k == 0) {
        std::fill_n(x, s.count * s.n * s.k, T(0));
        if (rank) std::fill_n(rank, s.count, 0);
        if (S) std::fill_n(S, s.count * least, Real<T>(0));
        return -1;
    }
    constexpr int64_t none = std::numeric_limits<int64_t>::max();
    std::atomic<int64_t> failed{none};
    batch::for_each(s.count, s.m * s.n * (2 * least + s.k), [&](int64_t begin, int64_t end) {
        std::optional<FullRank<T>> fast;
        if (FullRank<T>::takes(way, s)) fast.emplace(way, s, rcond);
        std::optional<Solver<T>> solver;
        for (int64_t i = begin; i < end; ++i) {
            const T *from = a + i * s.m * s.n, *right = b + i * s.m * s.k;
            T* to = x + i * s.n * s.k;
            if (fast && (*fast)(from, right, to)) {
                if (rank) rank[i] = s.n;
                continue;
            }
            if (!solver) solver.emplace(way, s, rcond);
            BlasInt found = 0;
            const BlasInt info = (*solver)(from, right, to, S ? S + i * least : nullptr, &found);
            if (rank) rank[i] = found;
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
