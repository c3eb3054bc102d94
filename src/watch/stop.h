/// A conditional breakpoint: what a call and its results have to be like for a debugger to be called.
#pragma once
#include <cmath>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "watch/statistics.h"

namespace weft::watch {

struct Event;

/// All that is asked for has to hold. The cheap questions come first; those that patterns answer are
/// asked once for an op, a line and a call of a module.
class Stop {
public:
    enum Question { kOp, kLine, kModule };

    uint32_t refs = 0;
    bool nan = false;  ///< some element is, and none of the operands that calls have made; or
    bool inf = false;  ///< some element is, and none of any operand: masks are
    double norm_above = NAN;  ///< nan: any norm
    bool asks_shape = false;
    std::vector<int64_t> shape;  ///< -1: any size
    int64_t rest = -1;           ///< where in it any number of sizes may stand; -1: nowhere
    int64_t backward = -1;       ///< 1: within backward alone, 0: outside of it alone, -1: both
    bool asks[3] = {};           ///< by Question
    int32_t last = -1;           ///< the last event that it stopped at

    virtual ~Stop() = default;
    /// Whether a pattern fits what the event is, or is in. May throw.
    virtual bool fits(Question question, const Event& event) = 0;

    /// Whether the event is one to stop at, if its results are.
    bool is_at(const Event& event);
    /// Whether every event is: then it has seen the results of those inside of another.
    bool is_everywhere() const { return !asks[kOp] && !asks[kLine] && !asks[kModule]; }
    bool asks_values() const { return nan || inf; }
    /// An operand, and whether a call has made it; what it had before, of one that is written over.
    struct Before {
        const Tensor* tensor;
        bool made;
        std::optional<Extremes> had;
    };
    /// Whether a result is like what is asked for; `written`: whether its elements are of the call.
    bool wants(const Tensor& result, bool written, std::span<const Before> operands) const;
    /// Numbers of lines and of calls of modules are others from now on.
    void forget();

private:
    bool answer(Question question, int64_t key, const Event& event);
    std::unordered_map<int64_t, bool> known_[3];
};
inline void release(Stop* stop) { delete stop; }

}  // namespace weft::watch
