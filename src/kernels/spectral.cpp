#include "kernels/spectral.h"

#include <atomic>
#include <complex>
#include <limits>
#include <optional>

#include "kernels/factor_batch.h"
#include "kernels/matmul.h"
#include "kernels/reflections.h"
#include "kernels/small_values.h"
#include "kernels/tridiagonal.h"

namespace weft::kernels {
namespace {

using lapack::Real;
using lapack::Routine;

/// What fails on the threads of a batch, the first one.
class FirstFailure {
public:
    void note(int64_t matrix, int code) {
        if (!code) return;
        int64_t known = at_.load();
        const int64_t mine = matrix * 65536 + (code & 65535);
        while (mine < known && !at_.compare_exchange_weak(known, mine)) {
        }
    }
    Unconverged found() const {
        const int64_t at = at_.load();
        if (at == kNone) return {};
        return {at / 65536, static_cast<int16_t>(at & 65535)};
    }

private:
    static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    std::atomic<int64_t> at_{kNone};
};

/// The size that a query gave.
template <class T>
BlasInt asked(T answer) {
    return static_cast<BlasInt>(std::real(answer)) + 1;
}

/// `syevd` or `heevd` of one size.
template <class T>
class SymmetricSolver {
public:
    SymmetricSolver(int64_t n, char job, char triangle)
        : n_(lapack::size(n)), job_(job), triangle_(triangle) {
        T work{};
        Real<T> real{};
        BlasInt integers = 0;
        run(nullptr, nullptr, &work, -1, &real, -1, &integers, -1);
        work_count_ = asked(work);
        real_count_ = asked(real);
        integer_count_ = integers;
        work_ = batch::room<T>(work_count_);
        real_ = batch::room<Real<T>>(real_count_);
        integers_ = batch::room<BlasInt>(integer_count_);
    }
    BlasInt operator()(T* a, Real<T>* values) {
        return run(a, values, work_.get(), work_count_, real_.get(), real_count_, integers_.get(),
                   integer_count_);
    }

private:
    BlasInt run(T* a, Real<T>* values, T* work, BlasInt works, Real<T>* real, BlasInt reals,
                BlasInt* integers, BlasInt integer_count) {
        BlasInt info = 0;
        if constexpr (lapack::is_complex<T>)
            lapack::call<T>(Routine::Syevd, job_, triangle_, n_, a, n_, values, work, works, real,
                            reals, integers, integer_count, &info);
        else
            lapack::call<T>(Routine::Syevd, job_, triangle_, n_, a, n_, values, work, works,
                            integers, integer_count, &info);
        return info;
    }

    BlasInt n_, work_count_ = 0, real_count_ = 0, integer_count_ = 0;
    char job_, triangle_;
    std::unique_ptr<T[]> work_;
    std::unique_ptr<Real<T>[]> real_;
    std::unique_ptr<BlasInt[]> integers_;
};

/// Of real matrices of one size, up to which `syevd`'s products with vectors cost more than our loops.
template <class T>
class SmallSymmetricSolver {
public:
    SmallSymmetricSolver(int64_t n, bool vectors)
        : n_(n), works_(lapack::size(vectors ? 1 + 4 * n + n * n : 1)),
          integer_count_(lapack::size(vectors ? 3 + 5 * n : 1)), a_(batch::room<T>(n * n)),
          vectors_(batch::room<T>(vectors ? n * n : 0)), beside_(batch::room<T>(3 * n)),
          work_(batch::room<T>(works_)), integers_(batch::room<BlasInt>(integer_count_)) {}
    /// LAPACK's vectors have these signs where it reads the lower triangle.
    static bool takes(int64_t n, bool vectors, bool upper) {
        return n > 2 && n <= 64 && !(vectors && upper);
    }
    /// False, without results, where squares may leave the type.
    bool operator()(bool upper, const T* a, T* values, T* vectors, BlasInt* info) {
        T most = 0;
        bool finite = true;
        for (int64_t i = 0; i < n_; ++i)
            for (int64_t j = 0; j <= i; ++j) {
                const T x = upper ? a[j * n_ + i] : a[i * n_ + j];
                a_[i * n_ + j] = a_[j * n_ + i] = x;
                most = std::max(most, std::fabs(x));
                finite &= std::fabs(x) <= kMost;
            }
        if (!finite || most < 1 / kMost) return false;
        T *e = beside_.get(), *tau = e + n_, *w = tau + n_;
        per_isa<small::Tridiagonal<T>>(n_, a_.get(), values, e, tau, w);
        const auto n = lapack::size(n_);
        if (!vectors) {
            lapack::call<T>(Routine::Sterf, n, values, e, info);
            return true;
        }
        lapack::call<T>(Routine::Stedc, 'I', n, values, e, vectors_.get(), n, work_.get(), works_,
                        integers_.get(), integer_count_, info);
        batch::transpose(n_, n_, vectors_.get(), vectors);
        per_isa<small::FromTridiagonal<T>>(n_, static_cast<const T*>(a_.get()),
                                           static_cast<const T*>(tau), vectors, w);
        return true;
    }

private:
    static constexpr T kMost = sizeof(T) == 4 ? T(1e12) : T(1e140);

    int64_t n_;
    BlasInt works_, integer_count_;
    std::unique_ptr<T[]> a_, vectors_, beside_, work_;
    std::unique_ptr<BlasInt[]> integers_;
};

/// `geev` of one size, on column-major matrices.
template <class T>
class EigenSolver {
    using C = std::complex<Real<T>>;

public:
    EigenSolver(int64_t n, bool vectors)
        : n_(lapack::size(n)), job_(vectors ? 'V' : 'N'), real_(batch::room<Real<T>>(2 * n)),
          vectors_(batch::room<T>(vectors ? n * n : 1)) {
        T work{};
        C value{};
        run(nullptr, &value, &work, -1);
        work_count_ = asked(work);
        work_ = batch::room<T>(work_count_);
    }
    /// Vectors, unless null, in the rows of `vectors` [n, n].
    BlasInt operator()(T* a, C* values, C* vectors) {
        const BlasInt info = run(a, values, work_.get(), work_count_);
        if (!vectors || info) return info;
        const int64_t n = n_;
        if constexpr (lapack::is_complex<T>) {
            std::copy_n(vectors_.get(), n * n, vectors);
        } else {
            for (int64_t j = 0; j < n; ++j) {  // of a conjugate pair two columns: real, imaginary
                const T* re = vectors_.get() + j * n;
                C* to = vectors + j * n;
                const bool pair = values[j].imag() != 0 && j + 1 < n;
                for (int64_t i = 0; i < n; ++i) to[i] = C(re[i], pair ? re[n + i] : T(0));
                if (!pair) continue;
                for (int64_t i = 0; i < n; ++i) to[n + i] = std::conj(to[i]);
                ++j;
            }
        }
        return 0;
    }

private:
    BlasInt run(T* a, C* values, T* work, BlasInt works) {
        const BlasInt one = 1, columns = std::max(n_, one);
        BlasInt info = 0;
        T none{};
        if constexpr (lapack::is_complex<T>) {
            lapack::call<T>(Routine::Geev, 'N', job_, n_, a, columns, values, &none, one,
                            vectors_.get(), columns, work, works, real_.get(), &info);
        } else {
            T *re = real_.get(), *im = re + n_;
            lapack::call<T>(Routine::Geev, 'N', job_, n_, a, columns, re, im, &none, one,
                            vectors_.get(), columns, work, works, &info);
            for (int64_t i = 0; a && i < n_; ++i) values[i] = C(re[i], im[i]);
        }
        return info;
    }

    BlasInt n_, work_count_ = 0;
    char job_;
    std::unique_ptr<Real<T>[]> real_;
    std::unique_ptr<T[]> vectors_, work_;
};

/// `gesdd` of one size, on column-major matrices.
template <class T>
class SingularSolver {
public:
    SingularSolver(int64_t m, int64_t n, char job, int64_t u, int64_t v)
        : m_(lapack::size(m)), n_(lapack::size(n)), v_(lapack::size(v)), job_(job) {
        const int64_t k = std::min(m, n);
        integers_ = batch::room<BlasInt>(8 * k);
        if (lapack::is_complex<T>)
            real_ = batch::room<Real<T>>(
                job == 'N' ? 7 * k : k * std::max(5 * k + 7, 2 * std::max(m, n) + 2 * k + 1));
        U_ = batch::room<T>(std::max<int64_t>(1, m * u));
        V_ = batch::room<T>(std::max<int64_t>(1, v * n));
        T work{};
        run(nullptr, nullptr, &work, -1);
        work_count_ = asked(work);
        work_ = batch::room<T>(work_count_);
    }
    BlasInt operator()(T* a, Real<T>* S) { return run(a, S, work_.get(), work_count_); }
    const T* U() const { return U_.get(); }
    const T* V() const { return V_.get(); }

private:
    BlasInt run(T* a, Real<T>* S, T* work, BlasInt works) {
        BlasInt info = 0;
        const BlasInt rows_of_v = std::max(v_, BlasInt{1});
        if constexpr (lapack::is_complex<T>)
            lapack::call<T>(Routine::Gesdd, job_, m_, n_, a, m_, S, U_.get(), m_, V_.get(),
                            rows_of_v, work, works, real_.get(), integers_.get(), &info);
        else
            lapack::call<T>(Routine::Gesdd, job_, m_, n_, a, m_, S, U_.get(), m_, V_.get(),
                            rows_of_v, work, works, integers_.get(), &info);
        return info;
    }

    BlasInt m_, n_, v_, work_count_ = 0;
    char job_;
    std::unique_ptr<T[]> U_, V_, work_;
    std::unique_ptr<Real<T>[]> real_;
    std::unique_ptr<BlasInt[]> integers_;
};

/// Of real matrices that are much longer, one way or the other, than wide: A, or Aᵀ, is Q R (Chan, "An
/// improved algorithm for computing the singular value decomposition", 1982).
template <class T>
class LongSolver {
public:
    LongSolver(int64_t m, int64_t n, bool vectors)
        : tall_(m >= n), k_(std::min(m, n)), length_(std::max(m, n)), reflections_(length_, k_, k_),
          solver_(k_, k_, vectors ? 'S' : 'N', vectors ? k_ : 0, vectors ? k_ : 0),
          flipped_(batch::room<T>(tall_ ? 0 : m * n)), Q_(batch::room<T>(length_ * k_)),
          R_(batch::room<T>(k_ * k_)), tau_(batch::room<T>(k_)) {}
    /// Whether products pay.
    static bool takes(int64_t m, int64_t n) {
        const int64_t k = std::min(m, n), length = std::max(m, n);
        return 5 * length >= 8 * k && length * k > 1024;
    }
    BlasInt operator()(const T* a, T* U, Real<T>* S, T* Vh) {
        if (!tall_) {
            batch::transpose(k_, length_, a, flipped_.get());
            a = flipped_.get();
        }
        reflections_.factor(k_, a, Q_.get(), tau_.get());
        for (int64_t i = 0; i < k_; ++i)  // in columns: Rᵀ without vectors
            for (int64_t j = 0; j < k_; ++j)
                R_[U ? j * k_ + i : i * k_ + j] = j < i ? T(0) : Q_[i * k_ + j];
        const BlasInt info = solver_(R_.get(), S);
        if (!U || info) return info;
        reflections_.product(k_, Q_.get());
        const T *inner = solver_.U(), *Q = Q_.get();
        if (tall_) {
            gemm(Trans::No, Trans::Yes, length_, k_, k_, T(1), Q, k_, inner, k_, T(0), U, k_);
            batch::transpose(k_, k_, solver_.V(), Vh);
        } else {
            gemm(Trans::No, Trans::Yes, k_, length_, k_, T(1), inner, k_, Q, k_, T(0), Vh, length_);
            std::copy_n(solver_.V(), k_ * k_, U);
        }
        return info;
    }

private:
    bool tall_;
    int64_t k_, length_;
    Reflections<T> reflections_;
    SingularSolver<T> solver_;
    std::unique_ptr<T[]> flipped_, Q_, R_, tau_;
};

/// Of matrices without vectors; those that are not finite are in `failure`.
template <class T>
struct SmallValues {
    WEFT_INLINE static void run(int64_t begin, int64_t end, int64_t m, int64_t n, const T* a, T* S,
                                FirstFailure* failure) {
        const int64_t k = std::min(m, n);
        for (int64_t b = begin; b < end; ++b)
            if (!small::singular_values(m, n, a + b * m * n, S + b * k)) failure->note(b, -4);
    }
};

}  // namespace

template <class T>
Unconverged eigh(int64_t count, int64_t n, bool upper, const T* a, Real<T>* values, T* vectors) {
    if (n == 0) return {};
    FirstFailure failure;
    batch::for_each(count, n * n * n * 10, [&](int64_t begin, int64_t end) {
        // Without vectors the memory as it lies will do, which is Āᵀ: no vector has a sign to keep.
        const bool flipped = !vectors;
        std::optional<SymmetricSolver<T>> solver;
        std::unique_ptr<T[]> matrix;
        auto by_lapack = [&](int64_t b) {
            if (!solver) {
                solver.emplace(n, vectors ? 'V' : 'N', upper != flipped ? 'U' : 'L');
                matrix = batch::room<T>(n * n);
            }
            const T* from = a + b * n * n;
            if (flipped) std::copy_n(from, n * n, matrix.get());
            else batch::transpose(n, n, from, matrix.get());
            failure.note(b, (*solver)(matrix.get(), values + b * n));
            if (vectors) batch::transpose(n, n, matrix.get(), vectors + b * n * n);
        };
        if constexpr (!lapack::is_complex<T>)
            if (SmallSymmetricSolver<T>::takes(n, vectors, upper)) {
                SmallSymmetricSolver<T> small(n, vectors);
                for (int64_t b = begin; b < end; ++b) {
                    BlasInt info = 0;
                    T* to = vectors ? vectors + b * n * n : nullptr;
                    if (small(upper, a + b * n * n, values + b * n, to, &info))
                        failure.note(b, info);
                    else by_lapack(b);
                }
                return;
            }
        for (int64_t b = begin; b < end; ++b) by_lapack(b);
    });
    return failure.found();
}

template <class T>
Unconverged eig(int64_t count, int64_t n, const T* a, std::complex<Real<T>>* values,
                std::complex<Real<T>>* vectors) {
    if (n == 0) return {};
    FirstFailure failure;
    batch::for_each(count, n * n * n * 25, [&](int64_t begin, int64_t end) {
        EigenSolver<T> solver(n, vectors != nullptr);
        auto matrix = batch::room<T>(n * n);
        auto found = batch::room<std::complex<Real<T>>>(n * n);
        for (int64_t b = begin; b < end; ++b) {
            batch::transpose(n, n, a + b * n * n, matrix.get());
            failure.note(b, solver(matrix.get(), values + b * n, vectors ? found.get() : nullptr));
            if (vectors) batch::transpose(n, n, found.get(), vectors + b * n * n);
        }
    });
    return failure.found();
}

template <class T>
Unconverged svd(int64_t count, int64_t m, int64_t n, bool full, const T* a, T* U, Real<T>* S,
                T* Vh) {
    const int64_t k = std::min(m, n), u = U ? full ? m : k : 0, v = U ? full ? n : k : 0;
    if (k == 0) {
        for (int64_t b = 0; b < count; ++b) {  // of nothing, the bases are the identities
            std::fill_n(U + b * m * u, m * u, T(0));
            std::fill_n(Vh + b * v * n, v * n, T(0));
            for (int64_t i = 0; i < u; ++i) U[b * m * u + i * (u + 1)] = T(1);
            for (int64_t i = 0; i < v; ++i) Vh[b * v * n + i * (n + 1)] = T(1);
        }
        return {};
    }
    FirstFailure failure;
    batch::for_each(count, m * n * k * 20, [&](int64_t begin, int64_t end) {
        if constexpr (!lapack::is_complex<T>) {
            if (!U && k <= small::kMostRotated && std::max(m, n) <= 16)
                return per_isa<SmallValues<T>>(begin, end, m, n, a, S, &failure);
            if (LongSolver<T>::takes(m, n) && !(U && full)) {
                LongSolver<T> solver(m, n, U != nullptr);
                for (int64_t b = begin; b < end; ++b)
                    failure.note(b, solver(a + b * m * n, U ? U + b * m * u : nullptr, S + b * k,
                                           Vh ? Vh + b * v * n : nullptr));
                return;
            }
        }
        const char job = !U ? 'N' : full ? 'A' : 'S';
        SingularSolver<T> solver(U ? m : n, U ? n : m, job, u, v);
        auto matrix = batch::room<T>(m * n);
        for (int64_t b = begin; b < end; ++b) {
            const T* from = a + b * m * n;
            if (U) batch::transpose(m, n, from, matrix.get());
            else std::copy_n(from, m * n, matrix.get());  // of Aᵀ, the same values
            failure.note(b, solver(matrix.get(), S + b * k));
            if (!U) continue;
            batch::transpose(u, m, solver.U(), U + b * m * u);
            batch::transpose(n, v, solver.V(), Vh + b * v * n);
        }
    });
    return failure.found();
}

#define X(T)                                                                                       \
    template Unconverged eigh(int64_t, int64_t, bool, const T*, Real<T>*, T*);                     \
    template Unconverged eig(int64_t, int64_t, const T*, std::complex<Real<T>>*,                   \
                             std::complex<Real<T>>*);                                              \
    template Unconverged svd(int64_t, int64_t, int64_t, bool, const T*, T*, Real<T>*, T*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
