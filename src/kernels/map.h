/// Pointwise kernels: one functor becomes loops for every layout and every instruction set.
///
/// A functor F has `template <class... T> WEFT_INLINE Out operator()(T... x) const`; its members are
/// its parameters (a slope, a scale).
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "kernels/simd.h"

namespace weft::kernels {

/// out[i] = f(in0[i], ...): p[0] is the output, strides in bytes.
using MapLoop = void (*)(const void* f, char* const* p, const int64_t* strides, int64_t n);

namespace detail {

/// A functor that says so of a type, `template <class T> static constexpr bool by_element`, is not
/// vectorised for it: one loop serves every layout.
template <class F, class T>
concept ByElement = F::template by_element<T>;

/// The rest of a vectorised loop stays a loop (unroll 1): GCC would write out each element of it.
template <class F, class Out, class... In>
struct MapBody {
    static constexpr int kInputs = sizeof...(In);

    /// Inputs in `Repeat` (a bit each) are one element repeated, the others lie densely.
    template <unsigned Repeat, std::size_t... I>
    WEFT_INLINE static void dense(const F& f, char* const* p, int64_t n,
                                  std::index_sequence<I...>) {
        auto* out = reinterpret_cast<Out*>(p[0]);
        auto in = std::make_tuple(reinterpret_cast<const In*>(p[I + 1])...);
        // the others may have no first element
        auto first = std::make_tuple((Repeat >> I & 1) ? *std::get<I>(in) : In{}...);
#pragma GCC unroll 1
        for (int64_t i = 0; i < n; ++i)
            out[i] = f(((Repeat >> I & 1) ? std::get<I>(first) : std::get<I>(in)[i])...);
    }

    template <std::size_t... I>
    WEFT_INLINE static void strided(const F& f, char* const* p, const int64_t* s, int64_t n,
                                    std::index_sequence<I...>) {
        char* out = p[0];
        const char* in[] = {p[I + 1]...};
#pragma GCC unroll 1
        for (int64_t i = 0; i < n; ++i) {
            *reinterpret_cast<Out*>(out) = f(*reinterpret_cast<const In*>(in[I])...);
            out += s[0];
            ((in[I] += s[I + 1]), ...);
        }
    }

    WEFT_INLINE static void run(const void* f_, char* const* p, const int64_t* s, int64_t n) {
        const F f = *static_cast<const F*>(f_);
        constexpr auto all = std::index_sequence_for<In...>{};
        if constexpr (ByElement<F, Out>) return strided(f, p, s, n, all);
        constexpr int64_t sizes[] = {sizeof(In)..., 0};
        unsigned repeat = 0;
        bool is_dense = s[0] == sizeof(Out) || n == 1;
        for (int k = 0; k < kInputs; ++k) {
            if (s[k + 1] == 0) repeat |= 1u << k;
            else is_dense &= s[k + 1] == sizes[k] || n == 1;
        }
        if (!is_dense) return strided(f, p, s, n, all);
        if (repeat == 0) return dense<0>(f, p, n, all);
        if constexpr (kInputs == 2) {
            if (repeat == 1) return dense<1>(f, p, n, all);
            if (repeat == 2) return dense<2>(f, p, n, all);
        }
        strided(f, p, s, n, all);
    }
};

/// A functor that says `static constexpr int one_loop = 32` (64 where the body is short): it is
/// compiled once for each type and level, as a loop over blocks of so many elements. Operands that
/// do not lie densely and the last block go through buffers. It may have `inside(x...)`, which says
/// where operator() holds, and `slow(x...)` for elsewhere.
template <class F>
concept OneLoop = (F::one_loop > 0);

/// Not inlined: every loop shares them.
template <class T>
[[gnu::noinline]] void gather_block(T* to, const char* p, int64_t stride, int64_t n) {
    for (int64_t j = 0; j < n; ++j, p += stride) to[j] = *reinterpret_cast<const T*>(p);
}
template <class T>
[[gnu::noinline]] void scatter_block(const T* from, char* p, int64_t stride, int64_t n) {
    for (int64_t j = 0; j < n; ++j, p += stride) *reinterpret_cast<T*>(p) = from[j];
}

template <class F, class Out, class... In>
struct BlockBody {
    static constexpr int64_t kBlock = F::one_loop;
    static constexpr int64_t kFew = 4;
    template <class T>
    struct alignas(64) Buffer {
        T at[kBlock] = {};  // what the last block lacks is computed too, from zeros
    };

    /// to[j] = f(from[j]...) for one block; returns `result` instead of `to` if it had to go there.
    template <class... P>
    WEFT_INLINE static Out* compute(const F& f, Out* to, Out* result, int64_t m, const P*... from) {
        if constexpr (requires { f.inside(*from...); }) {
            unsigned outside = 0;
            for (int64_t j = 0; j < kBlock; ++j) outside |= !f.inside(from[j]...);
            if (outside) to = result;
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < kBlock; ++j) to[j] = f(from[j]...);
            for (int64_t j = 0; outside && j < m; ++j)
                if (!f.inside(from[j]...)) to[j] = f.slow(from[j]...);
        } else {
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < kBlock; ++j) to[j] = f(from[j]...);
        }
        return to;
    }

    /// So few that a vector would cost more.
    template <std::size_t... I>
    WEFT_INLINE static void one_by_one(const F& f, char* const* p, const int64_t* s, int64_t n,
                                       std::index_sequence<I...>) {
#pragma GCC unroll 1
        for (int64_t j = 0; j < n; ++j) {
            asm volatile("");  // keeps the loop from being vectorised
            Out& out = *reinterpret_cast<Out*>(p[0] + j * s[0]);
            auto run = [&](In... x) __attribute__((always_inline)) {
                if constexpr (requires { f.inside(x...); })
                    out = f.inside(x...) ? f(x...) : f.slow(x...);
                else out = f(x...);
            };
            run(*reinterpret_cast<const In*>(p[I + 1] + j * s[I + 1])...);
        }
    }

    template <std::size_t... I>
    WEFT_INLINE static void blocks(const F& f, char* const* p, const int64_t* s, int64_t n,
                                   std::index_sequence<I...>) {
        if (n <= kFew) return one_by_one(f, p, s, n, std::index_sequence<I...>{});
        std::tuple<Buffer<In>...> buffers;
        Buffer<Out> result;
        const char* at[] = {p[I + 1]...};
        bool dense = s[0] == sizeof(Out);
        auto repeat = [&]<class T>(Buffer<T>& buffer, const char*& from, int64_t stride) {
            dense &= stride == sizeof(T) || stride == 0;
            if (stride != 0) return;
            gather_block(buffer.at, from, 0, kBlock);
            from = reinterpret_cast<const char*>(buffer.at);
        };
        (repeat(std::get<I>(buffers), at[I], s[I + 1]), ...);
        char* out = p[0];
        for (int64_t i = 0; i < n; i += kBlock, out += kBlock * s[0]) {
            const int64_t m = n - i < kBlock ? n - i : kBlock;
            const char* from[] = {at[I]...};
            Out* to = reinterpret_cast<Out*>(out);
            if (!dense || m < kBlock) {
                to = result.at;
                auto gather = [&]<class T>(Buffer<T>& buffer, const char*& source, int64_t stride) {
                    if (stride == 0) return;
                    gather_block(buffer.at, source, stride, m);
                    source = reinterpret_cast<const char*>(buffer.at);
                };
                (gather(std::get<I>(buffers), from[I], s[I + 1]), ...);
            }
            to = compute(f, to, result.at, m, reinterpret_cast<const In*>(from[I])...);
            if (to == result.at) scatter_block(result.at, out, s[0], m);
            ((at[I] += kBlock * s[I + 1]), ...);
        }
    }

    WEFT_INLINE static void run(const void* f_, char* const* p, const int64_t* s, int64_t n) {
        const F f = *static_cast<const F*>(f_);
        blocks(f, p, s, n, std::index_sequence_for<In...>{});
    }
};

}  // namespace detail

template <class F, class Out, class... In>
MapLoop map_loop() {
    using Body = std::conditional_t<detail::OneLoop<F>, detail::BlockBody<F, Out, In...>,
                                    detail::MapBody<F, Out, In...>>;
    return IsaVersions<Body, const void*, char* const*, const int64_t*, int64_t>::pick();
}

}  // namespace weft::kernels
