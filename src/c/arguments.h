/// What weft_run is given, as values of programs.
///
/// Note [Kept handles]
/// A tensor over an argument costs more to make than to fill in. One that nothing else has when its call is over stays
/// in its place; the next argument that is laid out alike gets it, with another address. Between calls
/// it points at memory that may be gone, and nobody has it.
#pragma once
#include <string>
#include <vector>

#include "c/weft.h"
#include "native/callables.h"

namespace weft::c {

/// Values in each other, of arguments and of results.
inline constexpr int kMaxDepth = 1000;

/// The arguments of the call that runs. Lives in the heap of its context.
class Arguments {
public:
    Arguments() = default;
    Arguments(const Arguments&) = delete;

    /// As values that last until let_go(), which has to follow, also where this throws. Tensors lie over the caller's
    /// memory, or, with `copies`, do not.
    native::Given take(const weft_value* args, size_t count, const weft_value* named, bool copies);
    void let_go();
    /// The kept handles go.
    void free();

private:
    void put(const weft_value& v, bool copies);

    std::vector<native::Raw> values_;  ///< owned; from count_ on kept handles, or None
    int64_t count_ = 0;
    std::vector<std::string> names_;  ///< of the last of them
};

}  // namespace weft::c
