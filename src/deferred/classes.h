/// How a kept call finds its class: what of it and of its operands must be equal for calls to merge.
#pragma once
#include "deferred/waiting.h"

namespace weft::deferred {

/// What is known of the operands of one call.
struct Noted {
    InputSet fixed;          ///< one tensor, or one number, in every call of the kind
    InputSet unlike;         ///< of these: maybe another one (Note [Unlike])
    bool maybe_own = false;  ///< some is fixed, but may be the example's own (Note [Own])
    bool grad = false;
};

class Classes {
public:
    const Kinds& kinds() const { return kinds_; }
    /// Adds the operands of `c` to `load`; returns its class. With `own`, the one in which what no other
    /// example may use comes row by row (Note [Own]).
    uint32_t note(Waiting& load, const Call& c, Noted& noted, bool own = false);
    /// Whether calls of this class have another one over operands of their own. `c` is one, whose
    /// operands `load` holds from `first` on.
    bool has_own(Waiting& load, const Call& c, uint32_t of_class, uint32_t first);
    /// Forgets all of them if they are very many, or many of them of records that are retired; whether it did.
    bool forget_many();

private:
    bool many_are_retired();
    uint32_t class_over_own(Waiting& load, const Call& c, uint32_t first);
    uint32_t class_of(const Waiting& load, const Call& c, size_t words, const Noted& noted);

    Kinds kinds_;
    uint64_t looked_at_ = 0;  ///< how many records were retired when these were last looked for
    Key key_, attrs_;         ///< memory for the key of one call
};

}  // namespace weft::deferred
