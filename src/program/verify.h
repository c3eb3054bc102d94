/// Whether a Function is one that can run.
#pragma once
#include <vector>

#include "program/function.h"

namespace weft::program {

/// What a Function does not say itself, but who runs it knows.
struct Facts {
    std::vector<bool> is_true = {};  ///< of each constant; none: nothing is known of any
    bool scopes_pass = false;        ///< no `with` ends an exception
};

/// Throws a RuntimeError that names the first instruction at fault: operands, results, regions and names as the
/// verb wants them, numbers within their ranges, `break` and `continue` in a loop, no temporary read where it may
/// not have been written, and every way through it ends in `return` or an exception.
void verify(const Function& function, const Facts& facts = {});

}  // namespace weft::program
