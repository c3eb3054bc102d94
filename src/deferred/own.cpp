/// Note [Own]
/// Where an op has a weight, a tensor without a gradient may be one that all examples share (frozen,
/// a buffer) or each example's own data (`a @ x`); so may a parameter of a pointwise op be one of
/// many (`h * scales[k]`). Which, only their calls together tell: each is kept as if it was shared,
/// and if most are over tensors that no other example uses, a flush takes the classes in which such
/// operands are stacked like all others, or gathered (Note [Unlike]).
#include <map>
#include <unordered_map>

#include "deferred/tape.h"

namespace weft::deferred {
namespace {

/// The one of two users, if it is one.
uint64_t join(uint64_t known, uint64_t by) {
    return known == Readers::kNobody || known == by ? by : Readers::kSeveral;
}

/// What is known of the calls over one tensor.
struct Use {
    int64_t calls = 0;
    uint64_t user = Readers::kNobody;
    bool by_several() const { return user == Readers::kSeveral; }
    void add(const Kept& call) {
        ++calls;
        user = join(user, call.owner);
    }
};

/// Of what may run together over tensors of its own.
struct Uses {
    int64_t calls = 0, own_calls = 0, tensors = 0;
    uint64_t users = Readers::kNobody;
    void add(const Use& use) {
        calls += use.calls;
        if (!use.by_several()) own_calls += use.calls;
        users = join(users, use.user);
        ++tensors;
    }
    /// In one fiber all are the same one's: there what is used again is taken for a weight.
    bool own() const {
        if (tensors <= 1) return false;
        return users == Readers::kSeveral ? 2 * own_calls > calls : calls < 2 * tensors;
    }
};

class OwnChoice {
public:
    OwnChoice(Waiting& load, const Kinds& kinds)
        : load_(load), kinds_(kinds), of_class_(kinds.classes.size()) {}

    void run() {
        for (const Kept& call : load_.calls)
            if (const Class* known = undecided(call)) {
                of_class_[call.of_class].add(call);
                if (known->each != Class::kNone) of_any_shape_[like(*known)].add(call);
            }
        for (size_t c = 0; c < of_class_.size(); ++c)
            if (of_class_[c].calls) in_kind_[kind_over_own(kinds_.classes[c])].add(of_class_[c]);
        for (const auto& [like, use] : of_any_shape_) in_group_[like.first].add(use);
        for (Kept& call : load_.calls)
            if (const Class* known = undecided(call); known && is_own(*known))
                call.of_class = known->own;
    }

private:
    /// The class of a call that has another one over what is its own, or null.
    const Class* undecided(const Kept& call) const {
        const Class& known = kinds_.classes[call.of_class];
        return known.own < Class::kUnknown ? &known : nullptr;
    }
    uint32_t kind_over_own(const Class& c) const { return kinds_.classes[c.own].kind; }
    uint32_t group_over_own(const Class& c) const { return kinds_.kinds[kind_over_own(c)].group; }
    std::pair<uint32_t, uint32_t> like(const Class& c) const { return {group_over_own(c), c.each}; }
    bool is_own(const Class& c) {
        // Of other shapes than the rest of a group, what all share may be a weight.
        if (c.each != Class::kNone && !of_any_shape_[like(c)].by_several() &&
            in_group_[group_over_own(c)].own())
            return true;
        return in_kind_[kind_over_own(c)].own();
    }

    Waiting& load_;
    const Kinds& kinds_;
    // By class, of one shape, and by what is like it but for the shape: both hence by tensor.
    std::vector<Use> of_class_;
    std::map<std::pair<uint32_t, uint32_t>, Use> of_any_shape_;
    std::unordered_map<uint32_t, Uses> in_kind_, in_group_;
};

}  // namespace

void choose_own(Waiting& load, const Kinds& kinds) { OwnChoice(load, kinds).run(); }

}  // namespace weft::deferred
