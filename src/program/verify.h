/// Whether a Function is one that can run.
#pragma once
#include "program/function.h"

namespace weft::program {

/// Throws a RuntimeError that names the first instruction at fault: operands, results, regions and names as the
/// verb wants them, numbers within their ranges, `break` and `continue` in a loop, and no temporary read where
/// it may not have been written.
void verify(const Function& function);

}  // namespace weft::program
