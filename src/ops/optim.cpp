#include "ops/optim.h"

#include <cstring>

#include "base/lock.h"
#include "base/parallel.h"
#include "ops/conj.h"
#include "ops/copy.h"
#include "ops/optim_rules.h"

namespace weft::ops {
namespace {

constexpr int64_t kOptimGrain = 16384;

template <class T>
struct Pointers {
    T* p;
    const T* g;
    T* s[kMaxBuffers];
};

/// `kPresent`, a bit for each buffer, is fixed so that the loop has no branch and vectorises.
/// Elements are independent, so it does no harm if the gradient is the parameter itself.
template <template <class> class Rule, int kPresent>
struct StepBody {
    template <class T>
    WEFT_INLINE static void run(int64_t begin, int64_t end, Pointers<T> at, T sign, Rule<T> rule) {
        T *p = at.p, *s0 = at.s[0], *s1 = at.s[1], *s2 = at.s[2];
        const T* g = at.g;
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) {
            T x = p[i], s[kMaxBuffers] = {};
            if constexpr (kPresent & 1) s[0] = s0[i];
            if constexpr (kPresent & 2) s[1] = s1[i];
            if constexpr (kPresent & 4) s[2] = s2[i];
            rule(x, sign * g[i], s);
            p[i] = x;
            if constexpr (kPresent & 1) s0[i] = s[0];
            if constexpr (kPresent & 2) s1[i] = s[1];
            if constexpr (kPresent & 4) s2[i] = s[2];
        }
    }
};

/// Calls `f` with the constant that says which buffers are there: those that the rule always needs,
/// and of the others those in `present`.
template <class Rule, int kMask = (1 << Rule::kNeeded) - 1, class F>
void with_present(int present, F&& f) {
    if (present == kMask) return f(std::integral_constant<int, kMask>());
    if constexpr (kMask + (1 << Rule::kNeeded) < (1 << Rule::kBuffers))
        return with_present<Rule, kMask + (1 << Rule::kNeeded)>(present, f);
    else fail(ErrorKind::Runtime, "optimizer", "every state tensor that the step needs", "None");
}

/// A contiguous stand-in of a tensor that is updated, of a dtype with kernels; a copy is written
/// back.
class Dense {
public:
    explicit Dense(const Tensor& t) : from_(t) {
        if (t.defined() && !(t.contiguous() && t.dtype() == widened(t.dtype())))
            copy_ = as_contiguous(t, widened(t.dtype()));
    }
    void write_back() const {
        if (copy_.defined()) copy_into(from_, copy_);
    }
    template <class T>
    T* data() const {
        if (!from_.defined()) return nullptr;
        return copy_.defined() ? copy_.data<T>() : from_.data<T>();
    }

private:
    const Tensor& from_;
    Tensor copy_;
};

/// Complex numbers are steps of their two parts.
StepTarget by_parts(const StepTarget& t) {
    StepTarget parts = t;
    for (Tensor* x :
         {&parts.param, &parts.grad, &parts.buffers[0], &parts.buffers[1], &parts.buffers[2]})
        if (x->defined()) *x = parts_of(*x);
    return parts;
}

/// The rule for these numbers, which it counts on: `last`'s, if that was made of the same.
template <class Rule>
Rule rule_for(const StepTarget& t, DType dtype, const double* settings, LastRule& last) {
    static_assert(std::is_trivially_copyable_v<Rule> && sizeof(Rule) <= LastRule::kSize);
    Counters counters(t.numbers);
    bool is_last = last.is_there && last.dtype == dtype && last.fresh == t.fresh;
    for (int i = 0; i < Rule::kNumbers; ++i) {
        const DType is = t.numbers[i].dtype();
        const double value = counters.value(i);
        is_last = is_last && last.of_numbers[i] == is && last.before[i] == value;
        last.of_numbers[i] = is;
        last.before[i] = value;
    }
    if (is_last) {
        for (int i = 0; i < Rule::kNumbers; ++i) counters.set(i, last.after[i]);
        Rule rule = *reinterpret_cast<Rule*>(last.rule);
        return rule;
    }
    typename Rule::Settings o;
    std::memcpy(&o, settings, sizeof(o));
    Rule rule(o, counters, t.fresh);
    for (int i = 0; i < Rule::kNumbers; ++i) last.after[i] = counters.value(i);
    last.dtype = dtype;
    last.fresh = t.fresh;
    last.is_there = true;
    std::memcpy(last.rule, &rule, sizeof(rule));
    return rule;
}

template <template <class> class Rule>
void step(const StepTarget& t, const double* settings, bool maximize, LastRule& last) {
    if (is_complex(t.param.dtype())) return step<Rule>(by_parts(t), settings, maximize, last);
    Dense param(t.param),
        buffers[kMaxBuffers] = {Dense(t.buffers[0]), Dense(t.buffers[1]), Dense(t.buffers[2])};
    DType dtype = widened(t.param.dtype());
    Tensor grad = as_contiguous(t.grad, dtype);
    int64_t n = t.param.numel();
    dispatch<FloatingTypes>(dtype, "optimizer", [&]<class T>() {
        Pointers<T> at{param.data<T>(), grad.data<T>(), {}};
        int present = 0;
        for (int i = 0; i < Rule<T>::kBuffers; ++i) {
            at.s[i] = buffers[i].template data<T>();
            present |= t.buffers[i].defined() << i;
        }
        with_present<Rule<T>>(present, [&](auto mask) {
            const auto rule = rule_for<Rule<T>>(t, dtype, settings, last);
            Unlocked unlocked(n);
            parallel_for(n, kOptimGrain, [&](int64_t b, int64_t e) {
                kernels::per_isa<StepBody<Rule, decltype(mask)::value>>(
                    b, e, at, maximize ? T(-1) : T(1), rule);
            });
        });
    });
    param.write_back();
    for (const Dense& d : buffers) d.write_back();
}

template <template <class> class Rule>
constexpr StepRule rule(std::string_view name) {
    using R = Rule<double>;
    constexpr int kSettings = sizeof(typename R::Settings) / sizeof(double);
    static_assert(kSettings <= kMaxSettings && R::kBuffers <= kMaxBuffers &&
                  R::kNumbers <= kMaxNumbers);
    return {name, R::kNumbers, R::kBuffers, kSettings, step<Rule>};
}

constexpr StepRule rules[] = {
    rule<SgdRule>("sgd"),         rule<AdamRule>("adam"),         rule<RmspropRule>("rmsprop"),
    rule<AdagradRule>("adagrad"), rule<AdadeltaRule>("adadelta"), rule<AdamaxRule>("adamax"),
    rule<NadamRule>("nadam"),     rule<RadamRule>("radam"),       rule<AsgdRule>("asgd"),
    rule<RpropRule>("rprop"),
};

}  // namespace

const StepRule* find_step_rule(std::string_view name) {
    for (const StepRule& r : rules)
        if (r.name == name) return &r;
    return nullptr;
}

}  // namespace weft::ops
