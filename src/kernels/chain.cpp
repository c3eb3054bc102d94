#include "kernels/chain.h"

#include "kernels/vector.h"

namespace weft::kernels {
namespace {

using namespace vec;

template <class T>
struct Chain {
    T* out;
    const T* first;
    bool repeats;
    const Link* links;
    int count;
    int64_t n;
};

template <class V>
WEFT_INLINE void apply(Arithmetic op, bool is_second, V& acc, const V& x) {
    if (op == Arithmetic::Add) acc = is_second ? x + acc : acc + x;
    else if (op == Arithmetic::Sub) acc = is_second ? x - acc : acc - x;
    else acc = is_second ? x * acc : acc * x;
    in_register(acc);
}

/// Elements from i on, so many vectors.
template <class T, int Bytes, int Vectors>
WEFT_INLINE void block(const Chain<T>& q, int64_t i) {
    using V = typename Simd<T, Bytes>::Vector;
    constexpr int lanes = Simd<T, Bytes>::lanes;
    V acc[Vectors];
    for (int v = 0; v < Vectors; ++v)
        acc[v] = q.repeats ? *q.first - V{} : V(load<T, Bytes>(q.first + i + v * lanes));
    const auto link = [&](Arithmetic op, bool is_second,
                          const Link& l) __attribute__((always_inline)) {
        const T* x = reinterpret_cast<const T*>(l.x);
        if (l.repeats) {
            const V one = *x - V{};
            for (int v = 0; v < Vectors; ++v) apply<V>(op, is_second, acc[v], one);
        } else {
            for (int v = 0; v < Vectors; ++v) {
                const V other = load<T, Bytes>(x + i + v * lanes);  // no V& may stand for it
                apply<V>(op, is_second, acc[v], other);
            }
        }
    };
    for (int k = 0; k < q.count; ++k) {
        const Link& l = q.links[k];
        switch (l.op) {
            case Arithmetic::Add:
                l.is_second ? link(Arithmetic::Add, true, l) : link(Arithmetic::Add, false, l);
                break;
            case Arithmetic::Sub:
                l.is_second ? link(Arithmetic::Sub, true, l) : link(Arithmetic::Sub, false, l);
                break;
            default:
                l.is_second ? link(Arithmetic::Mul, true, l) : link(Arithmetic::Mul, false, l);
        }
    }
    for (int v = 0; v < Vectors; ++v) store<T, Bytes>(q.out + i + v * lanes, acc[v]);
}

template <class T>
struct ChainBody {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const Chain<T>* chain) {
            const Chain<T> q = *chain;
            constexpr int64_t lanes = Simd<T, Bytes>::lanes;
            int64_t i = 0;
            for (; i + 4 * lanes <= q.n; i += 4 * lanes) block<T, Bytes, 4>(q, i);
            for (; i + lanes <= q.n; i += lanes) block<T, Bytes, 1>(q, i);
            for (; i < q.n; ++i) block<T, sizeof(T), 1>(q, i);
        }
    };
};

}  // namespace

Arithmetic arithmetic_of(MapLoop loop) {
    const auto is = [loop]<class F>(F) {
        return loop == map_loop<F, float, float, float>() ||
               loop == map_loop<F, double, double, double>();
    };
    return is(Add{})   ? Arithmetic::Add
           : is(Sub{}) ? Arithmetic::Sub
           : is(Mul{}) ? Arithmetic::Mul
                       : Arithmetic::None;
}

template <class T>
void run_chain(T* out, const T* first, bool repeats, const Link* links, int count, int64_t n) {
    const Chain<T> q{out, first, repeats, links, count, n};
    per_width<ChainBody<T>::template Body>(&q);
}

template void run_chain(float*, const float*, bool, const Link*, int, int64_t);
template void run_chain(double*, const double*, bool, const Link*, int, int64_t);

}  // namespace weft::kernels
