#include "kernels/fft_plan.h"

#include <cmath>
#include <list>
#include <mutex>

#include "kernels/fft.h"

namespace weft::kernels {
namespace {

constexpr size_t most_plans = 32;

/// Radices of a smooth length: eights first, for each pass goes through memory, and fours rather than a two.
std::vector<int> radices_of(int64_t n) {
    std::vector<int> found;
    for (int radix : {8, 4, 2, 3, 5, 7, 11, 13})
        for (; n % radix == 0 && !(radix == 8 && n % 16 == 0 && n % 32 != 0); n /= radix)
            found.push_back(radix);
    return found;
}

template <class T>
std::shared_ptr<const FftPlan<T>> make_plan(int64_t n) {
    auto plan = std::make_shared<FftPlan<T>>();
    plan->n = n;
    if (!is_smooth(n)) {
        plan->chirp = chirp_of<T>(n);
        plan->weights = chirp_weights(plan->chirp);
        plan->inner = fft_plan<T>(longest_in_work(n));
        return plan;
    }
    int64_t done = 1, left = n;
    for (int radix : radices_of(n)) {
        typename FftPlan<T>::Pass pass{radix, done, left / radix, {}, {}};
        for (int64_t p = 0; p < pass.rest; ++p)
            for (int j = 1; j < radix; ++j)
                pass.twiddles.push_back(std::complex<T>(unit_root(p * j, left)));
        for (int j = 0; radix > 5 && j < radix; ++j)
            pass.roots.push_back(std::complex<T>(unit_root(j, radix)));
        plan->passes.push_back(std::move(pass));
        done *= radix;
        left /= radix;
    }
    return plan;
}

}  // namespace

std::complex<double> unit_root(int64_t j, int64_t n) {
    // An angle of at most an eighth of the circle, where sine and cosine are accurate.
    const int64_t eighths = 8 * (j % n) / n, at = 8 * (j % n) - eighths * n;  // of n
    const bool odd = eighths & 1;
    const double angle =
        M_PI / 4 * (static_cast<double>(odd ? n - at : at) / static_cast<double>(n));
    double c = std::cos(angle), s = std::sin(angle);
    if (odd) std::swap(c, s);
    switch (eighths >> 1) {  // quarter turns
        case 0:
            return {c, -s};
        case 1:
            return {-s, -c};
        case 2:
            return {-c, s};
        default:
            return {s, c};
    }
}

bool is_smooth(int64_t n) {
    for (int radix : {2, 3, 5, 7, 11, 13})
        while (n % radix == 0) n /= radix;
    return n == 1;
}

int64_t next_smooth(int64_t n) {
    for (;; ++n) {
        int64_t m = n;
        for (int radix : {2, 3, 5})
            while (m % radix == 0) m /= radix;
        if (m == 1) return n;
    }
}

int64_t longest_in_work(int64_t n) { return is_smooth(n) ? n : next_smooth(2 * n - 1); }

template <class T>
std::vector<std::complex<T>> chirp_of(int64_t n) {
    std::vector<std::complex<T>> chirp;
    int64_t square = 0;  // modulo 2 n
    for (int64_t j = 0; j < n; ++j) {
        chirp.push_back(std::complex<T>(unit_root(square, 2 * n)));
        square = (square + 2 * j + 1) % (2 * n);
    }
    return chirp;
}

template <class T>
std::vector<std::complex<T>> chirp_weights(const std::vector<std::complex<T>>& chirp) {
    const auto n = static_cast<int64_t>(chirp.size()), m = longest_in_work(n);
    std::vector<std::complex<T>> weights(static_cast<size_t>(m));
    for (int64_t j = 0; j < n; ++j) weights[j] = weights[(m - j) % m] = std::conj(chirp[j]);
    fft(weights.data(), weights.data(), {1, m, 1}, false, T(1) / static_cast<T>(m));
    return weights;
}

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n) {
    static std::mutex mutex;
    static std::list<std::shared_ptr<const FftPlan<T>>> kept;  // the latest first
    {
        const std::lock_guard lock(mutex);
        for (auto it = kept.begin(); it != kept.end(); ++it)
            if ((*it)->n == n) {
                kept.splice(kept.begin(), kept, it);
                return kept.front();
            }
    }
    auto plan = make_plan<T>(n);
    const std::lock_guard lock(mutex);
    kept.push_front(plan);
    if (kept.size() > most_plans) kept.pop_back();
    return plan;
}

#define WEFT_FFT_PLAN(T)                                                                           \
    template std::shared_ptr<const FftPlan<T>> fft_plan(int64_t);                                  \
    template std::vector<std::complex<T>> chirp_of(int64_t);                                       \
    template std::vector<std::complex<T>> chirp_weights(const std::vector<std::complex<T>>&);
WEFT_FFT_PLAN(float)
WEFT_FFT_PLAN(double)
#undef WEFT_FFT_PLAN

}  // namespace weft::kernels
