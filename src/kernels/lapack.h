/// LAPACK and BLAS routines of the loaded OpenBLAS (blas.h), under Fortran's conventions.
///
///     call<float>(Routine::Getrf, m, n, a, lda, pivots, &info);
///
/// Matrices are column-major there: a row-major one is seen as its transpose. Each routine is looked up
/// once per type. Throws Error(Runtime) if OpenBLAS cannot be loaded or lacks the routine.
#pragma once
#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/blas.h"

namespace weft::kernels::lapack {

/// X(enumerator, name behind the letter of a real type, of a complex one)
#define WEFT_LAPACK_ROUTINES(X)                                                                    \
    X(Getrf, "getrf", "getrf")                                                                     \
    X(Getri, "getri", "getri")                                                                     \
    X(Getrs, "getrs", "getrs")                                                                     \
    X(Potrf, "potrf", "potrf")                                                                     \
    X(Sytrf, "sytrf", "sytrf")                                                                     \
    X(Sytrs, "sytrs", "sytrs")                                                                     \
    X(Hetrf, "sytrf", "hetrf")                                                                     \
    X(Hetrs, "sytrs", "hetrs")                                                                     \
    X(Geqrf, "geqrf", "geqrf")                                                                     \
    X(Orgqr, "orgqr", "ungqr")                                                                     \
    X(Syevd, "syevd", "heevd")                                                                     \
    X(Sterf, "sterf", "sterf")                                                                     \
    X(Stedc, "stedc", "stedc")                                                                     \
    X(Gesdd, "gesdd", "gesdd")                                                                     \
    X(Geev, "geev", "geev")                                                                        \
    X(Gels, "gels", "gels")                                                                        \
    X(Gelsy, "gelsy", "gelsy")                                                                     \
    X(Gelsd, "gelsd", "gelsd")                                                                     \
    X(Gelss, "gelss", "gelss")                                                                     \
    X(Trtri, "trtri", "trtri")                                                                     \
    X(Trsm, "trsm", "trsm")                                                                        \
    X(Trsv, "trsv", "trsv")

enum class Routine : uint8_t {
#define X(id, real, complex) id,
    WEFT_LAPACK_ROUTINES(X)
#undef X
};

template <class T>
struct RealOf {
    using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
    using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;
template <class T>
inline constexpr bool is_complex = !std::is_same_v<T, Real<T>>;

/// The place of "s", "d", "c" or "z" among the letters.
template <class T>
inline constexpr int letter = 2 * is_complex<T> + std::is_same_v<Real<T>, double>;

void* routine(Routine which, int letter);

namespace detail {

/// Pointers as they are, all else by reference.
template <class A>
auto passed(const A& a) {
    if constexpr (std::is_pointer_v<A>) return a;
    else return &a;
}
/// The lengths of texts come behind all arguments.
template <class... Args, size_t... I>
void run(void* function, std::index_sequence<I...>, const Args&... args) {
    using Function = void (*)(decltype(passed(args))..., decltype(size_t{I})...);
    reinterpret_cast<Function>(function)(passed(args)..., (void(I), size_t{1})...);
}

}  // namespace detail

/// Integers are BlasInt, letters char, arrays pointers.
template <class T, class... Args>
void call(Routine which, const Args&... args) {
    constexpr size_t texts = (size_t{0} + ... + (std::is_same_v<Args, char> ? 1 : 0));
    detail::run(routine(which, letter<T>), std::make_index_sequence<texts>(), args...);
}

/// A size as LAPACK takes it. Throws Error(Runtime) for one beyond 2^31.
BlasInt size(int64_t n);

}  // namespace weft::kernels::lapack
