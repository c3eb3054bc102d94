/// Checks src/kernels/matmul.cpp against gemm_simple, exactly: operands are small integers, so
/// every order of summation gives the same floating result.
///
/// WEFT_BLAS names OpenBLAS; without it, below AVX2, the large products are expected to throw. The
/// program runs itself again for each lower WEFT_CPU level, each WEFT_GEMM and without OpenBLAS.
#include "kernels/matmul.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/dot_row.h"
#include "kernels/packed_gemm.h"
#include "kernels/simd.h"

using namespace weft::kernels;

namespace {

int failures = 0;
bool have_blas = false;
bool any_size = false;  // large products need OpenBLAS or AVX2
constexpr int64_t too_big_alone = (int64_t{1} << 24);

template <class T>
const char* type_name() {
    return sizeof(T) == 4 ? "float" : std::is_integral_v<T> ? "int64" : "double";
}

void check(bool ok, const std::string& what) {
    if (ok) return;
    if (++failures <= 20) std::printf("FAILED [%s]: %s\n", cpu_level_name(), what.c_str());
}

uint64_t random_state = 1;
int64_t random_below(int64_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((random_state >> 33) % static_cast<uint64_t>(n));
}

constexpr int guard = 77;  // what lies between and after the rows of a matrix

template <class T>
struct Matrix {
    int64_t rows, cols, ld;
    std::vector<T> data;
    Matrix(int64_t rows, int64_t cols, int64_t padding = 0)
        : rows(rows), cols(cols), ld(cols + padding), data(rows * ld + 1, T(guard)) {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j) data[i * ld + j] = T(random_below(9) - 4);
    }
};

template <class T>
std::string shape_text(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, T beta) {
    return weft::text(type_name<T>(), " ", ta ? "T" : "N", tb ? "T" : "N", " ", m, "x", n, "x", k,
                      " alpha ", alpha, " beta ", beta);
}

/// What is added lies elsewhere: the bits are those of gemm on a copy of it, for operands that round too.
template <class T>
void one_gemm_add(Matrix<T> a, Matrix<T> b, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                  T alpha, bool one_row) {
    for (T& x : a.data) x = x * T(7) / T(3);
    for (T& x : b.data) x = x * T(5) / T(3);
    const Matrix<T> d(one_row ? 1 : m, n, 2);
    const int64_t ldd = one_row ? 0 : d.ld;
    const Trans trans_a = ta ? Trans::Yes : Trans::No, trans_b = tb ? Trans::Yes : Trans::No;
    for (const T beta : {T(1), T(3)}) {
        Matrix<T> c(m, n, 1), want = c;
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) want.data[i * want.ld + j] = d.data[i * ldd + j];
        gemm(trans_a, trans_b, m, n, k, alpha, a.data.data(), a.ld, b.data.data(), b.ld, beta,
             want.data.data(), want.ld);
        gemm_add(trans_a, trans_b, m, n, k, alpha, a.data.data(), a.ld, b.data.data(), b.ld, beta,
                 d.data.data(), ldd, c.data.data(), c.ld);
        check(c.data == want.data, "gemm_add " + shape_text(ta, tb, m, n, k, alpha, beta));
        const Matrix<T> e(m, n, 1);  // lies as c does
        gemm_add(trans_a, trans_b, m, n, k, alpha, a.data.data(), a.ld, b.data.data(), b.ld, beta,
                 d.data.data(), ldd, c.data.data(), c.ld, e.data.data());
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) want.data[i * want.ld + j] += e.data[i * e.ld + j];
        check(c.data == want.data, "gemm_add of two " + shape_text(ta, tb, m, n, k, alpha, beta));
    }
}

template <class T>
void one_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, T beta, int64_t padding) {
    const Matrix<T> a(ta ? k : m, ta ? m : k, padding), b(tb ? n : k, tb ? k : n, padding);
    Matrix<T> c(m, n, padding);
    if (beta == T(0) && !std::is_integral_v<T>)
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j)
                c.data[i * c.ld + j] = std::numeric_limits<T>::quiet_NaN();
    Matrix<T> want = c;
    const Trans trans_a = ta ? Trans::Yes : Trans::No, trans_b = tb ? Trans::Yes : Trans::No;
    gemm_simple(trans_a, trans_b, m, n, k, alpha, a.data.data(), a.ld, b.data.data(), b.ld, beta,
                want.data.data(), want.ld);
    gemm(trans_a, trans_b, m, n, k, alpha, a.data.data(), a.ld, b.data.data(), b.ld, beta,
         c.data.data(), c.ld);
    check(c.data == want.data, "gemm " + shape_text(ta, tb, m, n, k, alpha, beta));
    for (const bool one_row : {true, false}) one_gemm_add(a, b, ta, tb, m, n, k, alpha, one_row);
}

template <class T>
void gemm_shapes() {
    const int64_t sizes[] = {0, 1, 2, 3, 5, 8, 17, 33, 66};
    for (const int64_t m : sizes)
        for (const int64_t n : sizes)
            for (const int64_t k : sizes) {
                const int pick = static_cast<int>((m * 7 + n * 3 + k) % 4);
                const T alpha = pick == 1 ? T(2) : T(1), beta = pick == 3 ? T(3) : T(pick % 2);
                for (int trans = 0; trans < 4; ++trans)
                    one_gemm<T>(trans & 1, trans & 2, m, n, k, alpha, beta, (m + n + k) % 3);
            }
    one_gemm<T>(false, true, 6, 40, 33, T(0), T(2), 1);
}

/// Shapes beyond the thresholds of choose_way, and those that are cut for the pool.
template <class T>
void large_gemm_shapes() {
    struct {
        int64_t m, n, k;
    } const shapes[] = {{1, 640, 1030}, {640, 1, 1030},  {3, 600, 513},  {1100, 3, 100},
                        {130, 10, 260}, {200, 130, 70},  {257, 40, 300}, {300, 520, 17},
                        {1, 1, 9000},   {1000, 1200, 1}, {2, 1500, 400}};
    for (const auto& s : shapes)
        for (int trans = 0; trans < 4; ++trans)
            if (any_size || s.m * s.n * s.k <= too_big_alone)
                one_gemm<T>(trans & 1, trans & 2, s.m, s.n, s.k, T(1), T(trans == 2), trans % 2);
    if (!any_size || std::is_integral_v<T>) return;
    // Cut in two for OpenBLAS.
    one_gemm<T>(true, false, 333, 700, 150, T(2), T(1), 3);
    // Several blocks of rows, on each of two threads, and of depth when packed; the last smaller.
    for (int trans = 0; trans < 4; ++trans)
        one_gemm<T>(trans & 1, trans & 2, 2605, 70, 401, T(1), T(trans), trans);
}

template <class T>
void vectors() {
    for (const int64_t m : {1, 2, 5, 16, 17, 64, 130})
        for (const int64_t n : {1, 3, 8, 33, 64, 300})
            for (const int64_t inc : {1, 2, -1}) {
                const Matrix<T> a(m, n, 2);
                const int64_t step = inc < 0 ? -inc : inc;
                const Matrix<T> xs(1, n * step), zs(1, m * step);
                const T* x = xs.data.data() + (inc < 0 ? n - 1 : 0);
                const T* z = zs.data.data() + (inc < 0 ? m - 1 : 0);
                std::vector<T> y(m * step, T(5)), want(m * step, T(5));
                T* const yp = y.data() + (inc < 0 ? m - 1 : 0);
                T* const wp = want.data() + (inc < 0 ? m - 1 : 0);
                const std::string what = weft::text(type_name<T>(), " ", m, "x", n, " inc ", inc);
                gemm_simple(Trans::No, Trans::No, m, 1, n, T(2), a.data.data(), a.ld, x, inc, T(3),
                            wp, inc);
                gemv(Trans::No, m, n, T(2), a.data.data(), a.ld, x, inc, T(3), yp, inc);
                check(y == want, "gemv N " + what);
                std::vector<T> v(n * step, T(4)), vwant(n * step, T(4));
                T* const vp = v.data() + (inc < 0 ? n - 1 : 0);
                T* const vw = vwant.data() + (inc < 0 ? n - 1 : 0);
                gemm_simple(Trans::Yes, Trans::No, n, 1, m, T(1), a.data.data(), a.ld, z, inc, T(0),
                            vw, inc);
                gemv(Trans::Yes, m, n, T(1), a.data.data(), a.ld, z, inc, T(0), vp, inc);
                check(v == vwant, "gemv T " + what);
                Matrix<T> sum = a, sum_want = a;
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t j = 0; j < n; ++j)
                        sum_want.data[i * a.ld + j] += 2 * z[i * inc] * x[j * inc];
                ger(m, n, T(2), z, inc, x, inc, sum.data.data(), sum.ld);
                check(sum.data == sum_want.data, "ger " + what);
                T dot_want = 0;
                for (int64_t j = 0; j < n; ++j) dot_want += x[j * inc] * xs.data[j];
                check(dot(n, x, inc, xs.data.data(), 1) == dot_want, "dot " + what);
            }
    const Matrix<T> x(1, 100000), y(1, 100000);
    T want = 0;
    for (int64_t i = 0; i < 100000; ++i) want += x.data[i] * y.data[i];
    check(dot<T>(100000, x.data.data(), 1, y.data.data(), 1) == want, "dot of 100000");
    check(dot<T>(0, x.data.data(), 1, y.data.data(), 1) == T(0), "dot of nothing");
}

template <class T>
void batches() {
    struct {
        int64_t batch, m, n, k, stride_b;
    } const cases[] = {{3, 4, 5, 6, 30},       {5, 1, 7, 3, 0},  {4, 6, 8, 9, 0},
                       {0, 2, 2, 2, 4},        {2, 0, 3, 3, 9},  {2, 3, 3, 0, 0},
                       {40, 64, 32, 48, 1536}, {3, 20, 1, 5, 5}, {7, 33, 17, 16, 0}};
    for (const auto& s : cases)
        for (int trans = 0; trans < 4; ++trans) {
            const bool ta = trans & 1, tb = trans & 2;
            const Matrix<T> a(s.batch, s.m * s.k), b(s.stride_b ? s.batch : 1, s.n * s.k);
            Matrix<T> c(s.batch, s.m * s.n);
            Matrix<T> want = c;
            const Trans trans_a = ta ? Trans::Yes : Trans::No;
            const Trans trans_b = tb ? Trans::Yes : Trans::No;
            const int64_t lda = ta ? s.m : s.k, ldb = tb ? s.k : s.n;
            for (int64_t i = 0; i < s.batch; ++i)
                gemm_simple(trans_a, trans_b, s.m, s.n, s.k, T(1), &a.data[i * s.m * s.k], lda,
                            &b.data[i * s.stride_b], ldb, T(2), &want.data[i * s.m * s.n], s.n);
            gemm_batched(trans_a, trans_b, s.batch, s.m, s.n, s.k, T(1), a.data.data(), lda,
                         s.m * s.k, b.data.data(), ldb, s.stride_b, T(2), c.data.data(), s.n,
                         s.m * s.n);
            check(c.data == want.data,
                  weft::text("gemm_batched ", s.batch, " of ",
                             shape_text<T>(ta, tb, s.m, s.n, s.k, T(1), T(2))));
        }
}

/// Real data: rounding stays near that of a sum of k terms; same bits with 1, 2 and 3 threads.
template <class T>
void rounding_and_threads() {
    struct {
        int64_t m, n, k;
    } const shapes[] = {{1, 3000, 300},  {2, 2048, 300},  {3, 500, 9000},
                        {200, 300, 256}, {256, 700, 200}, {64, 768, 400},
                        {1, 1, 50000},   {650, 540, 130}, {300, 220, 400}};
    for (const auto& s : shapes)
        for (int trans = 0; trans < 4; ++trans) {
            if (!any_size && s.m * s.n * s.k > too_big_alone) continue;
            std::vector<T> a(s.m * s.k), b(s.k * s.n);
            for (T& x : a) x = static_cast<T>(random_below(1 << 20)) / (1 << 19) - 1;
            for (T& x : b) x = static_cast<T>(random_below(1 << 20)) / (1 << 19) - 1;
            const int64_t lda = trans & 1 ? s.m : s.k, ldb = trans & 2 ? s.k : s.n;
            std::vector<T> first;
            for (const int threads : {1, 2, 3}) {
                weft::set_num_threads(threads);
                std::vector<T> c(s.m * s.n);
                gemm(trans & 1 ? Trans::Yes : Trans::No, trans & 2 ? Trans::Yes : Trans::No, s.m,
                     s.n, s.k, T(1), a.data(), lda, b.data(), ldb, T(0), c.data(), s.n);
                if (threads == 1) first = c;
                check(!std::memcmp(c.data(), first.data(), c.size() * sizeof(T)),
                      weft::text(threads, " threads change bits of ",
                                 shape_text<T>(trans & 1, trans & 2, s.m, s.n, s.k, 1, 0)));
            }
            weft::set_num_threads(2);
            for (int probe = 0; probe < 20; ++probe) {
                const int64_t i = random_below(s.m), j = random_below(s.n);
                double want = 0;
                for (int64_t p = 0; p < s.k; ++p)
                    want += double(a[trans & 1 ? p * lda + i : i * lda + p]) *
                            double(b[trans & 2 ? j * ldb + p : p * ldb + j]);
                const double bound = std::numeric_limits<T>::epsilon() * 4 * std::sqrt(s.k) * 2;
                check(std::fabs(first[i * s.n + j] - want) <= bound * std::sqrt(s.k) * 0.5,
                      weft::text("rounding of ",
                                 shape_text<T>(trans & 1, trans & 2, s.m, s.n, s.k, 1, 0), ": ",
                                 first[i * s.n + j] - want));
            }
        }
}

template <class T>
void special_values() {
    const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    for (const int64_t k : {3, 8, 17, 33, 100})
        for (const int64_t m : {1, 2, 5}) {
            // An infinity in the last k % lanes elements, where vectors overlap.
            std::vector<T> a(m * k, T(1)), b(20 * k, T(1)), c(m * 20);
            b[3 * k + k - 2] = inf;
            b[5 * k + k - 1] = nan;
            gemm(Trans::No, Trans::Yes, m, 20, k, T(1), a.data(), k, b.data(), k, T(0), c.data(),
                 20);
            bool ok = true;
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < 20; ++j) {
                    const T x = c[i * 20 + j];
                    ok &= j == 3 ? x == inf : j == 5 ? std::isnan(x) : x == T(k);
                }
            check(ok, weft::text("infinity and NaN stay in their column, k ", k, " m ", m));
        }
    T c[4] = {nan, nan, nan, nan};
    gemm<T>(Trans::No, Trans::No, 2, 2, 0, 1, nullptr, 1, nullptr, 2, 0, c, 2);
    check(c[0] == 0 && c[3] == 0, "k == 0 with beta == 0 writes zeros");
    T d[4] = {1, 2, 3, 4};
    gemm<T>(Trans::No, Trans::No, 2, 2, 5, 0, nullptr, 5, nullptr, 2, 2, d, 2);
    check(d[0] == 2 && d[3] == 8, "alpha == 0 reads neither A nor B");
}

void missing_library() {
    const int64_t n = 300;
    std::vector<float> a(n * n, 1), c(n * n);
    bool thrown = false;
    try {
        gemm<float>(Trans::Yes, Trans::No, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
    } catch (const weft::Error& error) {
        thrown = error.kind == weft::ErrorKind::Runtime &&
                 std::strstr(error.what(), "pip install scipy-openblas32");
    }
    check(thrown, "a large product without OpenBLAS says what to install");
}

/// A row's product that is decided once has the bits of those that decide each time; numbers that round.
template <class T>
void dot_rows() {
    for (const int64_t n : {1, 2, 3, 8, 9, 64, 65, 700})
        for (const int64_t k : {1, 2, 3, 4, 5, 8, 31, 64, 100, 9000})
            for (const T beta : {T(0), T(1), T(0.3)}) {
                const T alpha = n % 2 ? T(0.7) : T(1);
                const int64_t lead = k + n % 3;
                std::vector<T> x(k), b(n * lead), d(n), c(n), want(n);
                for (auto* numbers : {&x, &b, &d})
                    for (size_t i = 0; i < numbers->size(); ++i)
                        (*numbers)[i] =
                            static_cast<T>(std::sin(1.0 + 0.37 * static_cast<double>(i)));
                DotRow row{n, k, lead, alpha, beta};
                row.find_kernel<T>();
                if (!row.kernel) continue;
                row.kernel(row, c.data(), x.data(), b.data(), beta == T(0) ? c.data() : d.data());
                if (beta == T(0))
                    gemm(Trans::No, Trans::Yes, 1, n, k, alpha, x.data(), k, b.data(), lead, beta,
                         want.data(), n);
                else
                    gemm_add(Trans::No, Trans::Yes, 1, n, k, alpha, x.data(), k, b.data(), lead,
                             beta, d.data(), 0, want.data(), n);
                check(!std::memcmp(c.data(), want.data(), c.size() * sizeof(T)),
                      "a row of dots " + shape_text(false, true, 1, n, k, alpha, beta));
            }
    DotRow row{64, 64, 64, 1, 1};
    row.find_kernel<T>();
    const char* way = std::getenv("WEFT_GEMM");
    check((row.kernel == nullptr) == (way && !std::strcmp(way, "simple")), "a row of dots is one");
}

template <class T>
void all_of() {
    gemm_shapes<T>();
    large_gemm_shapes<T>();
    vectors<T>();
    batches<T>();
    if constexpr (!std::is_integral_v<T>) {
        special_values<T>();
        rounding_and_threads<T>();
        dot_rows<T>();
    }
}

/// Runs this program again with one more variable set.
void again(const char* program, const char* name, const char* value) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        execl(program, program, "again", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, std::string("run with ") + name + value);
}

}  // namespace

int main(int argc, char**) {
    const bool first_run = argc < 2;
    try {
        have_blas = blas_symbol("cblas_sgemm") != nullptr;
    } catch (const weft::Error&) {
        have_blas = false;
    }
    any_size = have_blas || packed_gemm_ready();
    weft::set_num_threads(2);
    all_of<float>();
    all_of<double>();
    all_of<int64_t>();
    const char* way = std::getenv("WEFT_GEMM");
    if (!any_size && !(way && !std::strcmp(way, "simple"))) missing_library();
    if (first_run) {
        again("/proc/self/exe", "WEFT_CPU", "avx2");
        again("/proc/self/exe", "WEFT_CPU", "baseline");
        again("/proc/self/exe", "WEFT_GEMM", "packed");
        again("/proc/self/exe", "WEFT_GEMM", "panels");
        if (have_blas) again("/proc/self/exe", "WEFT_GEMM", "blas");
        if (have_blas) again("/proc/self/exe", "WEFT_BLAS", "/nowhere.so");
    }
    std::printf(failures ? "%s: %d failures\n" : "matmul %s: ok\n", cpu_level_name(), failures);
    return failures ? 1 : 0;
}
