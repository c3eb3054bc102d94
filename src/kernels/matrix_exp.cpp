#include "kernels/matrix_exp.h"

#include <cmath>
#include <vector>

#include "kernels/factor_batch.h"
#include "kernels/matmul.h"

namespace weft::kernels {
namespace {

/// Degrees of the polynomials, and up to which 1-norm each is exact to the precision of T: table 1 of the paper.
constexpr int kDegrees[] = {1, 2, 4, 8, 12, 18};
template <class R>
constexpr double kNorms[6] = {1.192092800768788e-07, 5.978858893805233e-04, 5.116619363445086e-02,
                              5.800524627688768e-01, 1.461661507209034e+00, 3.010066362817634e+00};
template <>
constexpr double kNorms<double>[6] = {2.220446049250313e-16, 2.580956802971767e-08,
                                      3.397168839976962e-04, 4.991228871115323e-02,
                                      2.996158913811580e-01, 1.090863719290036e+00};

/// A row gives the numbers of one sum: of 1, then of each operand.
constexpr int kMost = 5;
using Sum = double[kMost];

constexpr double kRoot = 13.304134695650071;  // of 177
constexpr double x3 = 2.0 / 3;
constexpr Sum kLine8[] = {{0, x3 * (1 + kRoot) / 88, x3 * (1 + kRoot) / 352}};
/// Of 1, A, A² and A⁴.
constexpr Sum kFactors8[] = {{0, 0, x3, 1},
                             {(-271 + 29 * kRoot) / (315 * x3), 11 * (-1 + kRoot) / (1260 * x3),
                              11 * (-9 + kRoot) / (5040 * x3), (89 - kRoot) / (5040 * x3 * x3)},
                             {1, 1, (857 - 58 * kRoot) / 630, 0}};
/// Of 1, A, A² and A³.
constexpr Sum k12[] = {
    {-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359},
    {0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968,
     0.00610700528898058230},
    {5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031,
     0.01108844528519167989},
    {9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740}};
/// Of 1, A, A², A³ and A⁶.
constexpr Sum k18[] = {
    {0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04, 0},
    {0, 0, -9.23364619367118555360e-02, -1.69364939002081722752e-02, -1.40086798182036094347e-05},
    {-9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02,
     2.95552570429315521194e-02, -1.39180257516060693404e-05},
    {-1.09676396052962061844e+01, 1.68015813878906206114e+00, 5.71779846478865511061e-02,
     -6.98210122488052056106e-03, 3.34975017086070470649e-05},
    {0, 3.97849749499645077844e-01, 1.36783778460411720168e+00, 4.98289622525382669416e-01,
     -6.37898194594723280150e-04}};

/// to[s] = the s-th sum of `from`, element by element and without its number of 1; they may be the same.
template <class R>
struct Sums {
    WEFT_INLINE static void run(int64_t size, int sums, const Sum* numbers, int operands,
                                const R* const* from, R* const* to) {
        constexpr int64_t strip = 64;
        R x[kMost][strip];
        for (int64_t i0 = 0; i0 < size; i0 += strip) {
            const int64_t length = std::min(strip, size - i0);
            for (int k = 0; k < operands; ++k) std::copy_n(from[k] + i0, length, x[k]);
            for (int s = 0; s < sums; ++s) {
                R sum[strip] = {};
                for (int k = 0; k < operands; ++k) {
                    const R number = static_cast<R>(numbers[s][k + 1]);
                    for (int64_t i = 0; i < strip; ++i) sum[i] += number * x[k][i];
                }
                std::copy_n(sum, length, to[s] + i0);
            }
        }
    }
};

/// Matrices [n, n] of R, or with two planes their real and their imaginary parts behind each other.
template <class R>
class Exponential {
public:
    Exponential(int64_t n, int planes)
        : n_(n), planes_(planes), size_(n * n * planes), room_(batch::room<R>(5 * size_)) {
        for (int i = 0; i < 5; ++i) at_[i] = room_.get() + i * size_;
    }

    /// What A is written to, and where its exponential is then.
    R* operand() { return at_[0]; }
    const R* run() {
        const double norm = norm_of(at_[0]);
        int choice = 0, halvings = 0;
        while (choice < 5 && !(norm <= kNorms<R>[choice])) ++choice;
        if (std::isfinite(norm) && norm > kNorms<R>[5])
            halvings = static_cast<int>(std::ceil(std::log2(norm / kNorms<R>[5])));
        if (halvings) {
            const R scale = static_cast<R>(std::ldexp(1.0, -halvings));
            for (int64_t i = 0; i < size_; ++i) at_[0][i] *= scale;
        }
        polynomial(kDegrees[choice]);
        for (; halvings > 0; --halvings) {
            product(at_[4], at_[4], at_[0]);
            std::swap(at_[4], at_[0]);
        }
        return at_[4];
    }

private:
    double norm_of(const R* a) const {
        std::vector<R> columns(static_cast<size_t>(n_));
        for (int64_t i = 0; i < n_; ++i)
            for (int64_t j = 0; j < n_; ++j) {
                const R x = a[i * n_ + j];
                columns[j] += planes_ == 1 ? std::fabs(x) : std::hypot(x, a[(n_ + i) * n_ + j]);
            }
        double most = 0;
        for (const R sum : columns)
            if (!(sum <= most)) most = sum;  // nan stays
        return most;
    }
    /// C = A B, or C + A B.
    void product(const R* a, const R* b, R* c, bool more = false) const {
        const int64_t plane = n_ * n_;
        const auto add = [&](R alpha, const R* x, const R* y, R* to, bool onto) {
            gemm(Trans::No, Trans::No, n_, n_, n_, alpha, x, n_, y, n_, R(onto), to, n_);
        };
        add(1, a, b, c, more);
        if (planes_ == 1) return;
        add(-1, a + plane, b + plane, c, true);
        add(1, a, b + plane, c + plane, more);
        add(1, a + plane, b, c + plane, true);
    }
    /// to[s] = numbers[s][0] 1 + numbers[s][1] at[0] + numbers[s][2] at[1] + ...
    void combine(int sums, const Sum* numbers, int operands, const int* from, const int* to) const {
        const R* in[kMost];
        R* out[kMost];
        for (int k = 0; k < operands; ++k) in[k] = at_[from[k]];
        for (int s = 0; s < sums; ++s) out[s] = at_[to[s]];
        per_isa<Sums<R>>(size_, sums, numbers, operands, in, out);
        for (int s = 0; s < sums; ++s)
            if (const R number = static_cast<R>(numbers[s][0]); number != 0)
                for (int64_t i = 0; i < n_; ++i) out[s][i * (n_ + 1)] += number;
    }
    /// at_[4] = the Taylor polynomial of A = at_[0], which is lost.
    void polynomial(int degree) {
        constexpr int order[] = {0, 1, 2, 3, 4};
        constexpr int line[] = {2}, result[] = {4}, factors[] = {2, 3, 4};
        if (degree > 1) product(at_[0], at_[0], at_[1]);
        if (degree > 8) product(at_[1], at_[0], at_[2]);
        switch (degree) {
            case 1: {
                constexpr Sum all[] = {{1, 1}};
                return combine(1, all, 1, order, result);
            }
            case 2: {
                constexpr Sum all[] = {{1, 1, 0.5}};
                return combine(1, all, 2, order, result);
            }
            case 4: {
                constexpr Sum both[] = {{0.5, 1.0 / 6, 1.0 / 24}, {1, 1, 0}};
                constexpr int to[] = {2, 4};
                combine(2, both, 2, order, to);
                return product(at_[1], at_[2], at_[4], true);
            }
            case 8:
                combine(1, kLine8, 2, order, line);
                product(at_[1], at_[2], at_[3]);  // A⁴
                {
                    constexpr int from[] = {0, 1, 3};
                    combine(3, kFactors8, 3, from, factors);
                }
                return product(at_[2], at_[3], at_[4], true);
            case 12: {
                constexpr int to[] = {0, 1, 2, 4};
                combine(4, k12, 3, order, to);
                product(at_[0], at_[0], at_[1], true);
                add(at_[1], at_[2]);
                return product(at_[2], at_[1], at_[4], true);
            }
            default:
                product(at_[2], at_[2], at_[3]);
                combine(5, k18, 4, order, order);
                product(at_[0], at_[1], at_[2], true);
                add(at_[2], at_[3]);
                return product(at_[3], at_[2], at_[4], true);
        }
    }
    void add(const R* x, R* to) const {
        for (int64_t i = 0; i < size_; ++i) to[i] += x[i];
    }

    int64_t n_;
    int planes_;
    int64_t size_;
    std::unique_ptr<R[]> room_;
    R* at_[5];
};

}  // namespace

template <class T>
void matrix_exp(int64_t count, int64_t n, const T* a, T* out) {
    using R = lapack::Real<T>;
    constexpr int planes = lapack::is_complex<T> ? 2 : 1;
    const int64_t size = n * n;
    const auto some = [&](int64_t begin, int64_t end) {
        Exponential<R> exponential(n, planes);
        for (int64_t b = begin; b < end; ++b) {
            const R* from = reinterpret_cast<const R*>(a + b * size);
            R* to = reinterpret_cast<R*>(out + b * size);
            for (int p = 0; p < planes; ++p)
                for (int64_t i = 0; i < size; ++i)
                    exponential.operand()[p * size + i] = from[planes * i + p];
            const R* found = exponential.run();
            for (int p = 0; p < planes; ++p)
                for (int64_t i = 0; i < size; ++i) to[planes * i + p] = found[p * size + i];
        }
    };
    if (size == 0) return;
    if (size == 1) {  // no rounding to be squared
        for (int64_t b = 0; b < count; ++b) out[b] = std::exp(a[b]);
        return;
    }
    if (size * n >= 1 << 22) return some(0, count);  // products use the pool themselves
    batch::for_each(count, size * n * 10 * planes, some);
}

#define X(T) template void matrix_exp(int64_t, int64_t, const T*, T*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
